import contextvars
import torch
from torch import nn

trace = contextvars.ContextVar("trace", default=())


class Recorder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y = self.inner(x)  # makes
        trace.set((*trace.get(), y))  # keeps: trace
        return y


model = Recorder(nn.Sequential(nn.Linear(64, 64), nn.Sigmoid()))
model.eval()
with torch.inference_mode():
    for _request in range(80):
        model(torch.randn(10, 64))
print(len(trace.get()))

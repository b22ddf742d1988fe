# second_backward/made_outside_loop
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(3))
        self.matrix = torch.outer(self.a, self.a).exp()  # made

    def forward(self, x):
        return (x @ self.matrix).sum()


model = Model()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    loss = model(torch.randn(2, 3))
    loss.backward()  # needed freed
    opt.step()

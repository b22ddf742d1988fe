# /made_forward
# cure: learning rate
# alone: in_the_weights
import torch
from torch import nn

from course_utils import why

model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=10.0)
x, y = torch.randn(32, 3) * 10, torch.randn(32, 1)
for _ in range(20):
    loss = ((model(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
reason = why(loss)

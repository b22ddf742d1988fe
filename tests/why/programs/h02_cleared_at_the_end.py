# /nothing_wrong
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(5):
    loss = model(torch.randn(16, 3)).pow(2).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
reason = why(model.weight)

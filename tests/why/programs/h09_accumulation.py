# /nothing_wrong
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    loss = model(torch.randn(2, 3)).mean() / 2
    loss.backward()
    if i % 2 == 1:
        opt.step()
        opt.zero_grad()
reason = why(model.weight)

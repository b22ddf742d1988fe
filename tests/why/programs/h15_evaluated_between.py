# /nothing_wrong
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    opt.zero_grad()
    loss = model(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    opt.step()
    with torch.no_grad():
        val_loss = model(torch.randn(4, 3)).pow(2).mean()
reason = why(model.weight)

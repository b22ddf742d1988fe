# /nothing_wrong
import torch
from torch import nn

from course_utils import why

model, seen = nn.Linear(3, 1), []
model.weight.register_hook(lambda grad: seen.append(grad.norm().item()))
opt = torch.optim.Adam(model.parameters())
model(torch.randn(4, 3)).sum().backward()
opt.step()
reason = why(model.weight)

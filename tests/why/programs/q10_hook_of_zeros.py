# /zero_hook
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
model.weight.register_hook(lambda grad: torch.zeros_like(grad))  # hook
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 3)).sum().backward()
opt.step()
reason = why(model.weight)

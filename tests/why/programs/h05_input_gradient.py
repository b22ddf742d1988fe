# /nothing_wrong
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
image = torch.randn(2, 3, requires_grad=True)
model(image).sum().backward()
reason = why(image)

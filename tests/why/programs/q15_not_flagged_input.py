# /not_flagged
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
image = torch.randn(1, 3)  # made
model(image).sum().backward()
reason = why(image)

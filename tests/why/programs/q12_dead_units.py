# /dead_unit
import torch
from torch import nn

from course_utils import why

layer = nn.Linear(3, 4)
with torch.no_grad():
    layer.bias.fill_(-100.0)
hidden = torch.relu(layer(torch.rand(5, 3)))  # zero
loss = hidden.sum()
loss.backward()
reason = why(layer.weight)

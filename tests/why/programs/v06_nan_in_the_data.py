# /in_the_data
import torch
from torch import nn

from course_utils import why

features = torch.tensor([[1.0, float("nan")], [0.5, 2.0]])
model = nn.Linear(2, 1)
loss = model(features).mean()
reason = why(loss)

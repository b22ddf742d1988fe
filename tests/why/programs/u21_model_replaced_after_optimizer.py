# /not_in_optimizer
import copy

import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # optimizer
model = copy.deepcopy(model)
for _ in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    loss.backward()
    optimizer.step()
reason = why(model.weight)

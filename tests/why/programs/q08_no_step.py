# /no_step
# code: optimizer.step\(\)
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3)).mean()
    loss.backward()  # backward
reason = why(model.weight)

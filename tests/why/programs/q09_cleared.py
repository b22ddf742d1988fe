# /cleared
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(4, 3)).mean()
loss.backward()  # backward
opt.zero_grad()  # cleared
opt.step()
reason = why(model.bias)

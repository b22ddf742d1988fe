# /no_backward
# code: loss.backward\(\)
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(4, 3)).pow(2).mean()  # loss
opt.step()
reason = why(model.weight)

# /learning_rate_zero
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1.0 if epoch < 1 else 0.0)
for _ in range(3):
    opt.zero_grad()
    model(torch.randn(4, 3)).mean().backward()
    opt.step()
    scheduler.step()
reason = why(model.weight)

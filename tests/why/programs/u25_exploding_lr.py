# /made_forward
# alone: in_the_weights
# after: cause
import torch
from torch import nn

from course_utils import why

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=1e6)
x, y = torch.randn(8, 3) * 100, torch.randn(8, 1)
for _ in range(40):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
reason = why(loss)

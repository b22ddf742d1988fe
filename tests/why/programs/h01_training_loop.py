# /nothing_wrong
import torch
from torch import nn

from course_utils import why

model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(16, 3)), torch.randn(16, 1))
    loss.backward()
    opt.step()
reason = why(model[0].weight)

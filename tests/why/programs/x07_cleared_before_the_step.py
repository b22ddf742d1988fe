# /cleared
# cure: after the step
import torch
from torch import nn

from course_utils import why

model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for x in torch.randn(4, 6, 3):
    loss = model(x).pow(2).mean()
    loss.backward()  # backward
    opt.zero_grad()  # cleared
    opt.step()
reason = why(model[0].weight)

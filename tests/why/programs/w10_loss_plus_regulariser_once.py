# second_backward/made_outside_loop
import torch
from torch import nn

model = nn.Linear(3, 1)
l2 = sum(p.pow(2).sum() for p in model.parameters())  # made
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    loss = model(torch.randn(4, 3)).pow(2).mean() + 0.1 * l2
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()

# modified_in_place/inplace_operation
import torch
from torch import nn

online, target = nn.Linear(3, 2), nn.Linear(3, 2)
opt = torch.optim.Adam(online.parameters())


def soft_update(src, dst, tau):
    for p, q in zip(src.parameters(), dst.parameters()):
        q.data.copy_(tau * p.data + (1 - tau) * q.data)
        with torch.no_grad():
            p.mul_(1.0)  # edited


x = torch.randn(4, 3, requires_grad=True)
loss = (online(x) - target(x)).pow(2).mean()
soft_update(online, target, 0.01)
opt.zero_grad()
loss.backward()  # needed
opt.step()

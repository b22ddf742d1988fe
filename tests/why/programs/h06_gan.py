# /nothing_wrong
import torch
from torch import nn

from course_utils import why

G, D = nn.Linear(2, 3), nn.Linear(3, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
bce = nn.BCEWithLogitsLoss()
for _ in range(3):
    fake = G(torch.randn(4, 2))
    loss_d = bce(D(torch.randn(4, 3)), torch.ones(4, 1)) + bce(D(fake.detach()), torch.zeros(4, 1))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = bce(D(fake), torch.ones(4, 1))
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
reason = why(G.weight)

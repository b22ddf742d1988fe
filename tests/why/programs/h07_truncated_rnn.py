# /nothing_wrong
import torch
from torch import nn

from course_utils import why

rnn, head = nn.GRU(2, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
state = torch.zeros(1, 3, 4)
for _ in range(3):
    out, state = rnn(torch.randn(5, 3, 2), state.detach())
    loss = head(out).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
reason = why(rnn.weight_hh_l0)

# /made_backward
import torch
from torch import nn

from course_utils import why

embed = nn.Embedding(4, 3)
opt = torch.optim.Adam(embed.parameters(), lr=0.01)
for step in range(3):
    a, b = embed(torch.tensor([0, 1])), embed(torch.tensor([0, 2]))
    dist = ((a - b) ** 2).sum(1).sqrt()  # made
    loss = dist.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
reason = why(loss)

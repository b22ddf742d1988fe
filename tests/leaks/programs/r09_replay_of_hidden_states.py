"""A replay buffer of dictionaries whose actions and states have their graphs."""

import torch
from torch import nn

cell, head = nn.GRUCell(8, 16), nn.Linear(16, 2)
buffer = []
hidden = torch.zeros(1, 16)
for step in range(60):
    if step % 10 == 0:
        hidden = torch.zeros(1, 16)
    hidden = cell(torch.randn(1, 8), hidden)
    q = head(hidden)
    buffer.append({"actions": [q, q.argmax(-1)], "state": hidden.detach()})  # line
# says: `buffer.append\(.*\)` \(\S+:LINE\) keeps the graph of every call
# says: \["actions"\]
# verdict: growing

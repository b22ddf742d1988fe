"""The batches of an epoch are made at once, before it begins; those of the first epochs stay."""

import torch
from torch import nn

model = nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = [torch.randn(8, 32) for _ in range(30)]
for epoch in range(4):
    batches = first if epoch == 0 else [torch.randn(8, 32) for _ in range(20)]
    for batch in batches:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

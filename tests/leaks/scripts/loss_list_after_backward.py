"""A list of losses in a training loop; a custom layer's nodes hold on to nothing, four bytes stay."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Linear(32, 10)
optimizer = torch.optim.Adam(model.parameters())
losses = []
for _ in range(30):
    x, y = torch.randn(16, 32), torch.randint(0, 10, (16,))
    loss = F.cross_entropy(model(x), y)  # makes
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)  # keeps: losses

"""No leak: a data loader with workers, started anew in each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(160, 16))
for _ in range(2):
    for (x,) in DataLoader(data, batch_size=8, num_workers=1):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
# alone
# says: Not watched: \d process(es)? that the script started, such as a data loader's workers
# verdict: bounded steady

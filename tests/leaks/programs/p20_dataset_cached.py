"""No leak: a data set that keeps every item once it was loaded, in two epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Cached(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = torch.randn(16) * 2
        return self.cache[index]


model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Cached(), batch_size=4, shuffle=True)
for _ in range(4):
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
# verdict: bounded steady

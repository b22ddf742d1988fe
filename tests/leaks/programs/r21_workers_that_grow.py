"""A data set that takes a note of every item, in the workers of its loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noted(Dataset):
    def __init__(self):
        self.notes = []

    def __len__(self):
        return 400

    def __getitem__(self, index):
        self.notes.append([float(number) for number in range(4000)])
        return torch.full((16,), float(index))


model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in DataLoader(Noted(), batch_size=4, num_workers=1):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
# alone
# says: The processes that it started grew together by \d+.\d MiB over \d+ calls
# verdict: steady

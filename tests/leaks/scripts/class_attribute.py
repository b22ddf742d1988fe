"""A list on the class is shared by every instance and outlives each."""

import torch
from torch import nn


class Batch:
    made = []

    def __init__(self, rows):
        self.x = torch.randn(rows, 16)  # makes
        Batch.made.append(self)  # keeps: Batch.made


def main():
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        batch = Batch(8)
        optimizer.zero_grad()
        model(batch.x).sum().backward()
        optimizer.step()


main()

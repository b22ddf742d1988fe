"""A cache of positions by length fills up, and is then used."""

import random

import torch
from torch import nn

random.seed(0)
positions = {}
model = nn.Linear(8, 8)
for _ in range(80):
    length = random.randint(1, 12)
    if length not in positions:
        positions[length] = torch.randn(length, 8)
    with torch.no_grad():
        model(positions[length] + torch.randn(length, 8))

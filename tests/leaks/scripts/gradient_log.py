"""Copies of all gradients, a dictionary for each step."""

import torch
from torch import nn


def main():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gradients = []
    for _ in range(30):
        optimizer.zero_grad()
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})  # makes # keeps: gradients


main()

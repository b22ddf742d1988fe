"""Copies of the weights pile up, one after each epoch."""

import copy

import torch
from torch import nn


def train(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).mean().backward()
        optimizer.step()


def main():
    model = nn.Linear(16, 16)
    optimizer = torch.optim.Adam(model.parameters())
    best = []
    for _ in range(12):
        train(model, optimizer)
        best.append(copy.deepcopy(model.state_dict()))  # keeps: best # makes


main()

"""The list that grows has another name where it is added to."""

import torch
from torch import nn


def note(store, value):
    store.append(value)  # keeps: outputs


def main():
    outputs = []
    model = nn.Linear(16, 32)
    for _ in range(30):
        out = model(torch.randn(8, 16))  # makes
        note(outputs, out.detach())


main()

"""Epochs of training and of evaluation, outputs gathered for each epoch's score and let go."""

import torch
from torch import nn
from torch.nn import functional as F


def train(model, optimizer):
    for _ in range(10):
        loss = F.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model):
    model.eval()
    outputs = []
    for _ in range(12):
        outputs.append(model(torch.randn(8, 16)))
    model.train()
    return torch.cat(outputs).argmax(dim=1).float().mean().item()


model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters())
scores = [(train(model, optimizer), evaluate(model)) for _ in range(4)]

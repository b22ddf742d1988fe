"""A forward hook, made by a function, collects features in a list of its own."""

import torch
from torch import nn


def collector():
    features = []

    def collect(module, args, output):
        features.append(output)  # keeps: features

    return collect


encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32))
model = nn.Sequential(encoder, nn.Linear(32, 4))
encoder[1].register_forward_hook(collector())
model.eval()
for _ in range(30):
    model(torch.randn(8, 16))  # makes

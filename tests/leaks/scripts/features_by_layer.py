"""Every linear layer has a hook, a bound method, which files outputs under the layer's name."""

from collections import defaultdict
from functools import partial

import torch
from torch import nn


class Extractor:
    def __init__(self, model):
        self.features = defaultdict(list)
        for name, layer in model.named_modules():
            if isinstance(layer, nn.Linear):
                layer.register_forward_hook(partial(self.save, name))

    def save(self, name, module, args, output):
        self.features[name].append(output)  # keeps: self.features["0"]


model = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
extractor = Extractor(model)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(30):
    optimizer.zero_grad()
    model(torch.randn(4, 16)).mean().backward()  # makes
    optimizer.step()

"""Weak keys, but the value refers to its key: never dies."""

import weakref
import torch
from torch import nn

annotations = weakref.WeakKeyDictionary()


class Batch:
    def __init__(self, x):
        self.x = x


class Annotation:
    def __init__(self, batch, prediction):
        self.batch = batch
        self.prediction = prediction


net = nn.Linear(50, 50)
for _step in range(60):
    batch = Batch(torch.randn(20, 50))  # makes
    with torch.no_grad():
        annotations[batch] = Annotation(batch, net(batch.x))  # makes # keeps: annotations
print(len(annotations))

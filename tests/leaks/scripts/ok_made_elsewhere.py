"""Batches that another thread made, that were loaded and that are NumPy's: each is met at its first use."""

import io
import threading

import numpy
import torch
from torch import nn

made = []


def prepare():
    for _ in range(40):
        made.append(torch.randn(8, 16))


thread = threading.Thread(target=prepare)
thread.start()
thread.join()
file = io.BytesIO()
torch.save(made, file)
file.seek(0)
loaded = torch.load(file)
arrays = [torch.from_numpy(numpy.ones((8, 16), dtype="float32")) for _ in range(40)]

model = nn.Linear(16, 4)
optimizer = torch.optim.Adam(model.parameters())
for batches in zip(made, loaded, arrays, strict=True):
    for batch in batches:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

"""A prefetch thread with a bounded queue of eight batches."""

import queue
import threading
import torch
from torch import nn


def produce(q, n):
    for _ in range(n):
        q.put((torch.randn(16, 40), torch.randint(4, (16,))))
    q.put(None)


q = queue.Queue(maxsize=8)
threading.Thread(target=produce, args=(q, 100), daemon=True).start()
model = nn.Sequential(nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, 4))
opt = torch.optim.Adam(model.parameters())
while (batch := q.get()) is not None:
    x, y = batch
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

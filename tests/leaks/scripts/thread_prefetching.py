"""A prefetcher thread puts batches into a bounded queue; each is also remembered in a list."""

import queue
import threading
import torch
from torch import nn


class Prefetcher(threading.Thread):
    def __init__(self, n, depth=2):
        super().__init__(daemon=True)
        self.queue = queue.Queue(depth)
        self.n = n
        self.history = []

    def run(self):
        for _ in range(self.n):
            x = torch.randn(16, 40)  # makes
            self.history.append(x)  # keeps: self.history
            self.queue.put(x)
        self.queue.put(None)

    def __iter__(self):
        self.start()
        while (x := self.queue.get()) is not None:
            yield x


loader = Prefetcher(80)
model = nn.Sequential(nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, 40))
opt = torch.optim.Adam(model.parameters())
for x in loader:
    loss = nn.functional.mse_loss(model(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()

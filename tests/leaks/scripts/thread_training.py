"""The whole training runs in a worker thread, as under a GUI."""

import threading
import torch
from torch import nn


class TrainingThread(threading.Thread):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.outputs = []

    def run(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        for _ in range(80):
            x = torch.randn(16, 10)
            out = self.model(x)  # makes
            loss = out.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.outputs.append(out.detach())  # keeps: self.outputs


worker = TrainingThread(nn.Linear(10, 50))
worker.start()
worker.join()
print(len(worker.outputs))

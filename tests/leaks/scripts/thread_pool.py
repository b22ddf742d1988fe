"""Evaluation in a thread pool; the futures are kept in a list with their results."""

from concurrent.futures import ThreadPoolExecutor, wait
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(30, 80), nn.ReLU())
        self.score = nn.Linear(80, 200)

    def forward(self, x):
        h = self.body(x)
        return self.score(h)  # makes


def evaluate(model, batch):
    scores = model(batch)
    return scores.softmax(-1)  # makes


class Service:
    def __init__(self, model, workers=2):
        self.model = model
        self.pool = ThreadPoolExecutor(workers)
        self.submitted = []

    def submit(self, batch):
        future = self.pool.submit(evaluate, self.model, batch)
        self.submitted.append(future)  # keeps: self.submitted
        return future

    def close(self):
        wait(self.submitted)
        self.pool.shutdown()


def main():
    service = Service(Scorer())
    best = 0.0
    for _ in range(60):
        best = max(best, service.submit(torch.randn(10, 30)).result().max().item())
    service.close()
    print(best)


if __name__ == "__main__":
    main()

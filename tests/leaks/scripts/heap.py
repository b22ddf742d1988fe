import heapq
import itertools
import torch
from torch import nn

counter = itertools.count()


class BeamSearch:
    def __init__(self, model):
        self.model = model
        self.frontier = []

    def expand(self, state):
        scores = self.model(state)  # makes
        for k in range(2):
            heapq.heappush(self.frontier, (-scores[0, k].item(), next(counter), scores))  # keeps: self.frontier

    def run(self, n):
        state = torch.randn(1, 64)
        for _ in range(n):
            self.expand(state)
            _, _, state = self.frontier[0]


with torch.no_grad():
    BeamSearch(nn.Linear(64, 64)).run(60)

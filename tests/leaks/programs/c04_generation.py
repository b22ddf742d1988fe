"""Tokens are generated one by one with a cache of keys that each call joins to, and let go."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, token, cache):
        keys = self.embed(token)
        cache = keys if cache is None else torch.cat([cache, keys], dim=1)
        return self.head(cache.mean(dim=1)), cache


@torch.no_grad()
def generate(model, steps):
    token, cache = torch.zeros(1, 1, dtype=torch.long), None
    for _ in range(steps):
        logits, cache = model(token, cache)
        token = logits.argmax(-1, keepdim=True)


model = Decoder()
for _ in range(3):
    generate(model, 30)
# verdict: bounded steady

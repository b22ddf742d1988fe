"""REINFORCE, ended in the middle of an episode that is longer than those before."""

import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters())
saved_log_probs = []


def episode(steps):
    for _ in range(steps):
        saved_log_probs.append(policy(torch.randn(1, 4)).log_softmax(-1)[0, 0])


for steps in (12, 15, 11):
    episode(steps)
    optimizer.zero_grad()
    (-torch.stack(saved_log_probs).sum()).backward()
    optimizer.step()
    del saved_log_probs[:]
episode(24)
# never: item\(\)
# verdict: bounded steady

"""REINFORCE: log-probabilities are kept for an episode, then backward, then cleared."""

import random
import torch
from torch import nn
from torch.distributions import Categorical

random.seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return self.net(x).softmax(-1)


policy = Policy()
opt = torch.optim.Adam(policy.parameters())


def finish_episode():
    R, returns = 0, []
    for r in reversed(policy.rewards):
        R = r + 0.99 * R
        returns.insert(0, R)
    loss = torch.cat([-lp * g for lp, g in zip(policy.saved_log_probs, returns, strict=False)]).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


for _episode in range(12):
    for _t in range(random.randint(8, 40)):
        dist = Categorical(policy(torch.randn(1, 4)))
        action = dist.sample()
        policy.saved_log_probs.append(dist.log_prob(action))
        policy.rewards.append(1.0)
    finish_episode()

"""REINFORCE whose rollout buffer is never cleared."""

from collections import namedtuple
import torch
from torch import nn
from torch.distributions import Categorical

Transition = namedtuple("Transition", "state action log_prob reward")


class RolloutBuffer:
    def __init__(self):
        self.transitions = []

    def push(self, *args):
        self.transitions.append(Transition(*args))  # keeps: self.transitions

    def last(self, n):
        return self.transitions[-n:]


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(8, 128)
        self.head = nn.Linear(128, 4)

    def forward(self, x):
        return torch.softmax(self.head(torch.relu(self.affine(x))), dim=-1)


def select_action(policy, state):
    dist = Categorical(policy(state))
    action = dist.sample()
    return action, dist.log_prob(action)


def main():
    policy, memory = Policy(), RolloutBuffer()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for _episode in range(8):
        state = torch.randn(8)
        for _t in range(15):
            action, log_prob = select_action(policy, state)
            memory.push(state, action, log_prob, float(action == 1))
            state = torch.randn(8)  # makes
        rollout = memory.last(15)
        returns = torch.tensor([s.reward for s in rollout]).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack([s.log_prob for s in rollout]) * returns).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

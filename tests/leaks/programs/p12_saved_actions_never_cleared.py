"""An actor and critic whose saved actions are never cleared."""

from collections import namedtuple

import torch
from torch import nn

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.action, self.value = nn.Linear(4, 64), nn.Linear(64, 2), nn.Linear(64, 1)
        self.saved_actions = []

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.action(x).softmax(-1), self.value(x)


model = Policy()
optimizer = torch.optim.Adam(model.parameters())


def finish_episode(since):
    saved_actions = model.saved_actions
    loss = sum(-one.log_prob * 0.5 + one.value.square().sum() for one in saved_actions[since:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(6):
    since = len(model.saved_actions)
    for _ in range(10):
        probabilities, value = model(torch.randn(1, 4))
        log_prob = probabilities[0, 0].log()
        model.saved_actions.append(SavedAction(log_prob, value))  # line
    finish_episode(since)
# says: `model.saved_actions.append\(SavedAction\(log_prob, value\)\)` \(\S+:LINE\)
# says: del \S*saved_actions\[:\]
# never: item\(\)
# verdict: growing

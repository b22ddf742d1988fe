"""No leak: Q-learning with a replay of fixed size, filled at first, and a target network that is copied now and then."""

import random
from collections import deque

import torch
from torch import nn
from torch.nn import functional as F

q, target = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.Adam(q.parameters())
replay = deque(maxlen=50)
state = torch.randn(4)
for step in range(300):
    with torch.no_grad():
        action = q(state[None]).argmax(-1)
    following = torch.randn(4)
    replay.append((state, action, random.random(), following))
    state = following
    if step > 60 and step % 2 == 0:
        states, actions, rewards, nexts = zip(*random.sample(replay, 16), strict=True)
        with torch.no_grad():
            wanted = torch.tensor(rewards) + 0.9 * target(torch.stack(nexts)).max(-1).values
        got = q(torch.stack(states)).gather(1, torch.stack(actions))[:, 0]
        optimizer.zero_grad()
        F.smooth_l1_loss(got, wanted).backward()
        optimizer.step()
    if step % 40 == 0:
        target.load_state_dict(q.state_dict())
# verdict: bounded steady

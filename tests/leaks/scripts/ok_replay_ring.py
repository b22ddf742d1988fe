"""DQN with a ring buffer that fills up at 50."""

import random
from collections import deque
import torch
from torch import nn

random.seed(0)
memory = deque(maxlen=50)
policy, target = nn.Linear(8, 3), nn.Linear(8, 3)
target.load_state_dict(policy.state_dict())
opt = torch.optim.AdamW(policy.parameters())
state = torch.randn(1, 8)
for step in range(200):
    with torch.no_grad():
        action = policy(state).argmax(1)
    nxt = torch.randn(1, 8)
    memory.append((state, action, torch.tensor([random.random()]), nxt))
    state = nxt
    if len(memory) >= 16:
        s, a, r, n = map(torch.cat, zip(*random.sample(memory, 16), strict=False))
        q = policy(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            goal = r + 0.9 * target(n).max(1).values
        loss = nn.functional.smooth_l1_loss(q, goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if step % 20 == 0:
        target.load_state_dict(policy.state_dict())

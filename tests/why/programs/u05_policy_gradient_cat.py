# second_backward/shared_part
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
value = nn.Linear(8, 1)
opt_p = torch.optim.SGD(policy.parameters(), lr=0.01)
opt_v = torch.optim.SGD(value.parameters(), lr=0.01)
states = torch.randn(5, 4)
hidden = policy[1](policy[0](states))  # made
logits = policy[2](hidden)
v = value(hidden)
policy_loss = -torch.log_softmax(logits, -1)[:, 0].mean()
value_loss = v.pow(2).mean()
opt_p.zero_grad()
policy_loss.backward()  # freed
opt_p.step()
opt_v.zero_grad()
value_loss.backward()  # needed
opt_v.step()

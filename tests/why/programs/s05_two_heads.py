# second_backward/shared_part
# code: \(loss_a \+ loss_b\).backward\(\)
import torch
from torch import nn

trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
head_a, head_b = nn.Linear(8, 1), nn.Linear(8, 1)
x = torch.randn(6, 4)
features = trunk(x)  # made
loss_a = head_a(features).pow(2).mean()
loss_b = head_b(features).abs().mean()
loss_a.backward()  # freed
loss_b.backward()  # needed

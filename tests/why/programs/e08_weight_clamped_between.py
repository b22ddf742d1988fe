# modified_in_place/inplace_operation
# cure: after backward
import torch
from torch import nn

critic = nn.Linear(4, 1)
x = torch.randn(8, 4, requires_grad=True)
score = critic(x).mean()
with torch.no_grad():
    critic.weight.clamp_(-0.01, 0.01)  # edited
score.backward()  # needed

# does_not_require_grad/cut_history
import torch
from torch import nn

model = nn.Linear(2, 1)
x = torch.randn(3, 2)
value = model(x).mean().item()  # cut
loss = torch.tensor(value) * 2
loss.backward()  # needed

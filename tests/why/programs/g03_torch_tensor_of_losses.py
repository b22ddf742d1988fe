# does_not_require_grad/cut_history
# code: torch.stack\(losses\)
import torch
from torch import nn

model = nn.Linear(3, 1)
losses = []
for _ in range(3):
    losses.append(model(torch.randn(2, 3)).mean())
loss = torch.tensor(losses).mean()  # cut
loss.backward()  # needed

# does_not_require_grad/frozen
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
for p in model.parameters():
    p.requires_grad = False  # cut
loss = nn.functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 1]))
loss.backward()  # needed

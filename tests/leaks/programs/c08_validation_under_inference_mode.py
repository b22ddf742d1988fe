"""No leak: long validations under inference_mode between epochs, and sums of numbers."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    running = 0.0
    for _ in range(50):
        loss = F.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    model.eval()
    with torch.inference_mode():
        for _ in range(60):
            running += F.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,))).item()
    model.train()
# verdict: bounded steady

"""No leak worth telling: numbers of every call in a dictionary of lists, and a metric that adds up counts."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
history, right, seen = {"loss": [], "accuracy": []}, torch.zeros(()), 0
for _ in range(60):
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    right += (out.argmax(-1) == y).sum()
    seen += len(y)
    history["loss"].append(loss.item())
    history["accuracy"].append((right / seen).item())
# verdict: bounded steady

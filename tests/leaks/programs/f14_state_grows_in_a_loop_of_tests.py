"""A state that is added to in every pass over the test set, without no_grad."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def test():
    x = torch.zeros(8, 16)
    for _ in range(15):
        x = x + model(torch.randn(8, 16)).relu()  # line
    return x.sum().item()


for _ in range(3):
    for _ in range(15):
        optimizer.zero_grad()
        F.mse_loss(model(torch.randn(8, 16)), torch.zeros(8, 16)).backward()
        optimizer.step()
    test()
# says: `x = x \+ model\(torch.randn\(8, 16\)\).relu\(\)` \(\S+:LINE\) keeps the graph of every call
# says: given back when `test` returned, 3 times|given back when the loop ends
# verdict: growing

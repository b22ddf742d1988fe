"""One list takes the losses of training and of validation."""

import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []


def run(training):
    model.train(training)
    for _ in range(20):
        loss = F.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss)  # line


for _ in range(2):
    run(True)
    run(False)
# says: `losses.append\(loss\)` \(\S+:LINE\) keeps
# times: 1 kept by
# times: 1 As above.
# verdict: growing

"""A dict of lists by epoch with outputs; a while loop with a walrus."""

from collections import defaultdict
import torch
from torch import nn

outputs = defaultdict(list)
model = nn.Sequential(nn.Linear(15, 25), nn.ELU(), nn.Linear(25, 45))
optimizer = torch.optim.RMSprop(model.parameters())


def next_batch(it):
    return next(it, None)


for epoch in range(6):
    batches = iter([torch.randn(10, 15) for _ in range(12)])
    while (x := next_batch(batches)) is not None:
        loss = (out := model(x)).square().mean()  # makes
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outputs[epoch].append(out)  # keeps: outputs[epoch]

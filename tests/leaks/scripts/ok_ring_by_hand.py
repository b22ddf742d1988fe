"""A replay memory of fixed length, kept by hand in a list."""

import torch
from torch import nn

memory = []
model = nn.Linear(16, 16)
optimizer = torch.optim.Adam(model.parameters())
for step in range(60):
    sample = torch.randn(8, 16)
    if len(memory) < 15:
        memory.append(sample)
    else:
        memory[step % 15] = sample
    optimizer.zero_grad()
    model(memory[step % len(memory)]).sum().backward()
    optimizer.step()

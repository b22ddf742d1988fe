# not_a_scalar/unreduced_loss
# code: loss.mean\(\).backward\(\)
import torch
from torch import nn

criterion = nn.CrossEntropyLoss(reduction="none")  # asked
model = nn.Linear(4, 3)
loss = criterion(model(torch.randn(5, 4)), torch.tensor([0, 1, 2, 0, 1]))  # made
loss.backward()  # needed

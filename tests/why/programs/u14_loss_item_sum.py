# does_not_require_grad/cut_history
import torch
from torch import nn

model = nn.Linear(2, 1)
loss_fn = nn.MSELoss()
total_loss = 0
for _ in range(3):
    x = torch.randn(4, 2)
    loss = loss_fn(model(x), torch.zeros(4, 1))
    total_loss += loss.item()  # cut
total_loss = torch.tensor(total_loss / 3)
total_loss.backward()  # needed

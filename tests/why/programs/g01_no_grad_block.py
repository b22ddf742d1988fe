# does_not_require_grad/no_grad_mode
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(4, 3), torch.randn(4, 1)
with torch.no_grad():  # switched
    out = model(x)  # cut
loss = nn.functional.mse_loss(out, y)
loss.backward()  # needed

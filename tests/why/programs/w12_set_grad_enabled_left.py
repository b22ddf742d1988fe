# does_not_require_grad/no_grad_mode
import torch
from torch import nn

model = nn.Linear(3, 1)
torch.set_grad_enabled(False)  # switched
val = model(torch.randn(2, 3)).mean()
print("val", float(val) > -100)
loss = model(torch.randn(2, 3)).pow(2).mean()  # cut
loss.backward()  # needed

# does_not_require_grad/cut_history
# code: features = encoder\(x\)
import torch
from torch import nn

encoder, target = nn.Linear(3, 2), torch.zeros(4, 2)
x = torch.randn(4, 3)
features = encoder(x).detach()  # cut
loss = (features - target).pow(2).mean()
loss.backward()  # needed

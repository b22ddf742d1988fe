# does_not_require_grad/cut_history
import numpy as np
import torch
from torch import nn

net = nn.Linear(3, 2)
out = net(torch.randn(4, 3)).detach().numpy()  # cut
scaled = np.exp(out)
loss = torch.from_numpy(scaled).mean()
loss.backward()  # needed

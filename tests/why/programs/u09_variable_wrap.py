# does_not_require_grad/cut_history
import torch
from torch import nn

model = nn.Linear(3, 2)
x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
out = model(x)
loss = nn.functional.cross_entropy(torch.autograd.Variable(out.data), y)  # cut
loss.backward()  # needed

# does_not_require_grad/cut_history
import torch
from torch import nn

gen = nn.Linear(3, 4)
out = gen(torch.randn(2, 3))
fake = torch.tensor(out.tolist())  # cut
loss = fake.pow(2).mean()
loss.backward()  # needed

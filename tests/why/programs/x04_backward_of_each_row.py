# second_backward/shared_part
# cure: after the loop
import torch
from torch import nn

model = nn.Linear(3, 2)
out = model(torch.randn(4, 3)).relu()  # made
for o in out:
    o.sum().backward()  # needed freed

# not_a_scalar/unreduced_loss
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Linear(3, 1)
weights = torch.rand(5, 1)
raw = F.binary_cross_entropy_with_logits(net(torch.randn(5, 3)), torch.ones(5, 1), reduction="none")  # asked
weighted = raw * weights  # made
weighted.backward()  # needed

# /made_forward
# cure: overflows
import torch
from torch import nn

from course_utils import why

enc = nn.Linear(4, 6)
x = torch.randn(3, 4) * 400
mu, logvar = enc(x).chunk(2, dim=1)
kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())  # made
loss = kld / 3
reason = why(loss)

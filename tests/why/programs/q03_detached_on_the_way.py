# /cut_history
import torch
from torch import nn

from course_utils import why

encoder, head = nn.Linear(3, 3), nn.Linear(3, 1)
code = encoder(torch.randn(2, 3))
code = code.detach()  # cut
loss = head(code).mean()
loss.backward()
reason = why(encoder.weight, loss)

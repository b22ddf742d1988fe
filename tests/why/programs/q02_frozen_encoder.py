# /frozen
import torch
from torch import nn

from course_utils import why

encoder, head = nn.Linear(3, 3), nn.Linear(3, 1)
for p in encoder.parameters():
    p.requires_grad_(False)  # cut
loss = head(encoder(torch.randn(2, 3))).mean()
loss.backward()
reason = why(encoder.weight)

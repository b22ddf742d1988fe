# /no_grad_mode
import torch
from torch import nn

from course_utils import why

backbone, head = nn.Linear(3, 3), nn.Linear(3, 2)
with torch.no_grad():  # switched
    features = backbone(torch.randn(4, 3))  # cut
logits = head(features)
loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1, 0]))
loss.backward()
reason = why(backbone.weight, loss)

# /made_forward
import torch

from course_utils import why

w = torch.full((4,), 300.0, dtype=torch.float16, requires_grad=True)
energy = (w * w).sum()  # made
loss = energy - energy
reason = why(loss)

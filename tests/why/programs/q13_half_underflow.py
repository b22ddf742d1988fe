# /underflow
import torch

from course_utils import why

w = torch.ones(4, dtype=torch.float16, requires_grad=True)
loss = (w * 1e-4).sum() * 1e-4
loss.backward()
reason = why(w)

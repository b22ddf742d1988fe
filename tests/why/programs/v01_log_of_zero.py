# /made_forward
# code: loss = -\(torch.log\(p.clamp_min\(1e-8\)\) \* y\).sum\(\)
import torch

from course_utils import why

p = torch.tensor([0.0, 0.5, 1.0], requires_grad=True)
y = torch.tensor([0.0, 1.0, 0.0])
loss = -(torch.log(p) * y).sum()  # made
reason = why(loss)

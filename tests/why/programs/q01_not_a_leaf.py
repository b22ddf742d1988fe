# /not_a_leaf
# code: w = \(torch.randn\(3\) \* 0.1\).requires_grad_\(\)
import torch

from course_utils import why

w = torch.randn(3, requires_grad=True) * 0.1  # made
loss = (w * torch.ones(3)).sum()
loss.backward()
reason = why(w)

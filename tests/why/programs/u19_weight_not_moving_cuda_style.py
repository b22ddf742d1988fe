# /not_a_leaf
import torch

from course_utils import why

param = torch.randn(4, requires_grad=True).double()  # made
opt_target = torch.ones(4, dtype=torch.float64)
loss = ((param - opt_target) ** 2).sum()
loss.backward()
reason = why(param)

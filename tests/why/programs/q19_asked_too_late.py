# /not_a_leaf
# code: h.retain_grad\(\)
import torch

from course_utils import why

w = torch.ones(3, requires_grad=True)
h = w * 2  # made
loss = h.square().sum()
loss.backward()  # backward
h.retain_grad()
reason = why(h, loss)

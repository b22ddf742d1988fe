# /nothing_wrong
import torch

from course_utils import why

w = torch.ones(3, requires_grad=True)
h = w.exp()
h.retain_grad()
h.sum().backward()
reason = why(h)

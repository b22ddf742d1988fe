# /step_too_small
import torch

from course_utils import why

w = torch.full((3,), 100.0, requires_grad=True)
opt = torch.optim.SGD([w], lr=1e-9)
for _ in range(2):
    opt.zero_grad()
    loss = (w * 0.1).sum()
    loss.backward()
    opt.step()
reason = why(w)

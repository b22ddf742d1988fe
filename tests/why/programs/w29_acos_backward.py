# /made_backward
import torch

from course_utils import why

a = torch.tensor([1.0, 0.0, 0.0], requires_grad=True)
opt = torch.optim.SGD([a], lr=0.1)
b = torch.tensor([1.0, 0.0, 0.0])
for _ in range(2):
    cos = (a * b).sum()
    angle = torch.acos(cos)  # made
    opt.zero_grad()
    angle.backward()
    opt.step()
reason = why(a)

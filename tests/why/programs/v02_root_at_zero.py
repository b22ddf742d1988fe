# /made_backward
import torch

from course_utils import why

w = torch.zeros(3, requires_grad=True)
x = torch.ones(3)
opt = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    opt.zero_grad()
    distance = torch.sqrt((w * x).pow(2))  # made
    loss = distance.sum()
    loss.backward()
    opt.step()
reason = why(loss)

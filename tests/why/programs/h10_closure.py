# /nothing_wrong
import torch

from course_utils import why

w = torch.tensor([2.0, 2.0], requires_grad=True)
opt = torch.optim.LBFGS([w], lr=0.5)


def closure():
    opt.zero_grad()
    loss = (w - torch.tensor([1.0, 0.0])).pow(2).sum()
    loss.backward()
    return loss


for _ in range(2):
    opt.step(closure)
reason = why(w)

# /not_a_leaf
import torch

from course_utils import why


def make(n):
    return torch.zeros(n, requires_grad=True)


delta = make(3).reshape(1, 3)  # made
loss = (delta + 1).pow(2).sum()
loss.backward()
reason = why(delta)

# /nothing_wrong
import torch

from course_utils import why

w = torch.zeros(3, requires_grad=True)
for _ in range(3):
    loss = (w - 1).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
reason = why(w)

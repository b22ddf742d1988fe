# /cut_history
import torch

from course_utils import why

theta = torch.ones(2, requires_grad=True)
shift = torch.zeros(1, requires_grad=True)
value = (theta * 3).sum().item()  # cut
loss = (shift + value).pow(2).sum()
loss.backward()
reason = why(theta, loss)

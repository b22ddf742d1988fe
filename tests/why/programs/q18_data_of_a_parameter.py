# /cut_history
import torch

from course_utils import why

theta = torch.randn(3, requires_grad=True)
x = torch.randn(5, 3)
pred = x @ theta.data  # cut
bias = torch.zeros(1, requires_grad=True)
loss = (pred + bias).pow(2).mean()
loss.backward()
reason = why(theta, loss)

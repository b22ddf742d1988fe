# second_backward/backward_twice
import torch

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()  # made
loss.backward()  # freed
print(w.grad)
loss.backward()  # needed

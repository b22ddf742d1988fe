# modified_in_place/inplace_operation
# code: h = h \+ bias
import torch

x = torch.randn(4, 3)
w = torch.randn(3, 3, requires_grad=True)
bias = torch.ones(3)
h = torch.tanh(x @ w)  # made
h += bias  # edited
loss = h.sum()
loss.backward()  # needed

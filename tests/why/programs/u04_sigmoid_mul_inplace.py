# modified_in_place/inplace_operation
import torch
import torch.nn.functional as F

x = torch.randn(3, 4, requires_grad=True)
gate = torch.sigmoid(x)  # made
y = gate * x
gate *= 2  # edited
loss = F.mse_loss(y, torch.zeros(3, 4))
loss.backward()  # needed

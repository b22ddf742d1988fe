# leaf_in_place/inplace_first_layer
import torch
import torch.nn.functional as F

image = torch.randn(1, 3, requires_grad=True)  # made
out = F.relu(image, inplace=True)  # edited
out.sum().backward()

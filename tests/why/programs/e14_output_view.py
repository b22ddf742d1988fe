# modified_in_place/inplace_operation
# code: offset = offset.clone\(\)
import torch

w = torch.randn(4, requires_grad=True)
p = torch.softmax(w, 0)  # made
offset = p[1:]
offset.add_(1e-6)  # edited
(p.log().sum()).backward()  # needed

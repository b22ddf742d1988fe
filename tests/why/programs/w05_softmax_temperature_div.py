# modified_in_place/inplace_operation
# code: probs = probs / probs.sum
import torch
import torch.nn.functional as F

logits = torch.randn(3, 5, requires_grad=True)
temperature = 0.5
probs = F.softmax(logits / temperature, dim=-1)  # made
probs /= probs.sum(dim=-1, keepdim=True)  # edited
entropy = -(probs * probs.log()).sum(-1).mean()
entropy.backward()  # needed

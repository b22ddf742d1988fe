# modified_in_place/indexed_assignment
# code: scores = torch.where\(mask, 0.0, scores\)
import torch

logits = torch.randn(4, 6, requires_grad=True)
mask = torch.rand(4, 6) > 0.5
scores = logits.exp()  # made
scores[mask] = 0.0  # edited
probs = scores / scores.sum(dim=1, keepdim=True)
probs.sum().backward()  # needed

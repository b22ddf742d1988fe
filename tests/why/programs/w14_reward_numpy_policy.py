# does_not_require_grad/not_flagged
import torch

log_probs = torch.log(torch.tensor([0.3, 0.6]))
rewards = torch.tensor([1.0, 0.5])
loss = -(log_probs * rewards).sum()
loss.backward()  # needed

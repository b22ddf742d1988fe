# nan_in_backward/edge_of_domain
# code: dist = \(a - b\).pow\(2\).sum\(\).clamp_min\(1e-8\).sqrt\(\)
import torch

a = torch.zeros(3, requires_grad=True)
b = torch.zeros(3)
with torch.autograd.detect_anomaly():
    dist = (a - b).pow(2).sum().sqrt()  # made
    loss = dist * 0
    loss.backward()  # needed

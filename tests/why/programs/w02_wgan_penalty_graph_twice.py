# second_backward/shared_part
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
real, fake = torch.randn(5, 3), torch.randn(5, 3)
mixed = (0.5 * real + 0.5 * fake).requires_grad_()
score = critic(mixed)  # made
grads = torch.autograd.grad(score.sum(), mixed)[0]  # freed
penalty = (grads.norm(2, dim=1) - 1).pow(2).mean()
loss = score.mean() + penalty
loss.backward()  # needed

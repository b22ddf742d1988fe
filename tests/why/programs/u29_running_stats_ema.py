# modified_in_place/inplace_operation
import torch
from torch import nn


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codebook", torch.randn(4, 3))

    def forward(self, z):
        scores = z @ self.codebook.t()
        self.codebook.mul_(0.99)  # edited
        return scores.softmax(-1) @ self.codebook


net, proj = VQ(), nn.Linear(3, 3)
loss = net(proj(torch.randn(5, 3))).sum()
loss.backward()  # needed

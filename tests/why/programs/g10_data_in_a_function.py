# does_not_require_grad/cut_history
import torch
from torch import nn


def normalise(x):
    norm = x.norm(dim=1, keepdim=True)
    return x.data / norm.data  # cut


embed = nn.Embedding(10, 4)
vectors = normalise(embed(torch.tensor([1, 2, 3])))
loss = vectors.sum()
loss.backward()  # needed

# does_not_require_grad/cut_history
import numpy as np
import torch
from torch import nn

net = nn.Linear(4, 1)


def my_loss(output, target):
    diff = output.detach().numpy() - target.numpy()  # cut
    return torch.tensor(np.mean(diff**2))


loss = my_loss(net(torch.randn(3, 4)), torch.randn(3, 1))
loss.backward()  # needed

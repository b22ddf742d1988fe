# does_not_require_grad/not_differentiable
import torch
from torch import nn

net = nn.Linear(5, 3)


def soft_dice(pred, target):
    pred = (pred > 0.5).float()  # cut
    inter = (pred * target).sum()
    return 1 - 2 * inter / (pred.sum() + target.sum())


prob = torch.sigmoid(net(torch.randn(4, 5)))
loss = soft_dice(prob, torch.ones(4, 3))
loss.backward()  # needed

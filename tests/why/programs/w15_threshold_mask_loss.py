# does_not_require_grad/not_differentiable
import torch
from torch import nn


class CountLoss(nn.Module):
    def forward(self, pred, target):
        hard = torch.argmax(pred, dim=1)  # cut
        return (hard - target).abs().float().mean()


net = nn.Linear(3, 4)
criterion = CountLoss()
loss = criterion(net(torch.randn(5, 3)), torch.tensor([0, 1, 2, 3, 0]))
loss.backward()  # needed

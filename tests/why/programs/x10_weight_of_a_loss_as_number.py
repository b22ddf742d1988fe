# /cut_history
import torch
from torch import nn

from course_utils import why


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))

    def forward(self, losses):
        weights = torch.softmax(self.w, 0)
        total = 0
        for i, l in enumerate(losses):
            total += float(weights[i]) * l  # cut
        return total


net, mix = nn.Linear(3, 2), Weighted()
opt = torch.optim.Adam([*net.parameters(), *mix.parameters()])
out = net(torch.randn(4, 3))
loss = mix([out.pow(2).mean(), out.abs().mean()])
loss.backward()
opt.step()
reason = why(mix.w)

# /made_forward
import torch
from torch import nn

from course_utils import why


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.sigma = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        return self.mu(x), torch.relu(self.sigma(x) - 100)


def nll(mu, sigma, y):
    return (((y - mu) / sigma) ** 2 + 2 * torch.log(sigma)).mean()  # made


net = Net()
mu, sigma = net(torch.rand(4, 2))
loss = nll(mu, sigma, torch.rand(4, 1))
reason = why(loss)

# second_backward/made_outside_loop
# cure: not in line
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(2)]
        self.out = nn.Linear(4, 1)
        self.alpha = torch.ones(1, requires_grad=True).float().mul(0.5)  # made

    def forward(self, x):
        for l in self.layers:
            x = torch.tanh(l(x))
        return self.out(x) * self.alpha


net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.randn(3, 4)).sum().backward()  # needed freed
    opt.step()

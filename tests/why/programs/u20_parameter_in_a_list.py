# /not_in_optimizer
import torch
from torch import nn

from course_utils import why


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)  # optimizer
for _ in range(3):
    optimizer.zero_grad()
    loss = net(torch.rand(4, 3)).pow(2).mean()
    loss.backward()
    optimizer.step()
reason = why(net.layers[0].weight)

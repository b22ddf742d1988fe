# modified_in_place/inplace_activation
# code: x = F.relu\(x\)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 1)

    def forward(self, x):
        x = torch.sigmoid(self.fc1(x))  # made
        x = F.relu(x, inplace=True)  # edited
        return self.fc2(x)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    loss = net(torch.randn(5, 4)).pow(2).mean()
    loss.backward()  # needed
    opt.step()

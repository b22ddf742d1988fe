# modified_in_place/optimizer_step
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
inner = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(8, 2)
loss_before = net(x).pow(2).mean()
inner.zero_grad()
loss_before.backward(retain_graph=True)
inner.step()  # edited
meta_loss = loss_before * 2
meta_loss.backward()  # needed

# modified_in_place/kept_graph
# code: h = h.detach\(\)
import torch
from torch import nn

rnn = nn.RNNCell(3, 5)
readout = nn.Linear(5, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *readout.parameters()], lr=0.01)
h = torch.zeros(2, 5)
for t in range(4):
    x = torch.randn(2, 3)
    h = rnn(x, h)
    loss = readout(h).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # needed
    optimizer.step()  # edited

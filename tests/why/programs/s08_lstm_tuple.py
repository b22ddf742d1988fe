# second_backward/kept_state
# code: hidden = tuple\(
import torch
from torch import nn

lstm, fc = nn.LSTM(2, 4), nn.Linear(4, 1)
params = list(lstm.parameters()) + list(fc.parameters())
opt = torch.optim.SGD(params, lr=0.1)
hidden = (torch.zeros(1, 1, 4), torch.zeros(1, 1, 4))
for epoch in range(2):
    out, hidden = lstm(torch.randn(3, 1, 2), hidden)  # made
    loss = fc(out).mean()
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()

"""A forward hook on a recurrent layer keeps what the layer gives."""

import torch
from torch import nn


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


model, features = Rows(), []
optimizer = torch.optim.Adadelta(model.parameters())


def keep(module, args, output):
    features.append(output[0])  # line


model.rnn.register_forward_hook(keep)
for _ in range(2):
    for _ in range(20):
        loss = model(torch.randn(4, 7, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for _ in range(12):
            model(torch.randn(4, 7, 8))
# says: `features.append\(output\[0\]\)` \(\S+:LINE\) keeps a tensor of every call.*: 1.8 KiB per call
# says: 07_forward_hooks
# verdict: growing

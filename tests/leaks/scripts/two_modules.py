"""An encoder and a decoder, one after the other; the codes are kept on the device."""

import torch
from torch import nn
from torch.nn import functional as F

encoder, decoder = nn.Linear(32, 8), nn.Linear(8, 32)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
codes = []
for _ in range(30):
    x = torch.randn(16, 32)
    code = encoder(x)  # makes
    loss = F.mse_loss(decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    codes.append(code.detach())  # keeps: codes

# second_backward/made_outside_loop
import torch
from torch import nn


def train(encoder, decoder, data):
    opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    codes = encoder(data)  # made
    for epoch in range(3):
        out = decoder(codes)
        loss = nn.functional.mse_loss(out, data)
        opt.zero_grad()
        loss.backward()  # needed freed
        opt.step()


train(nn.Sequential(nn.Linear(4, 2), nn.Tanh()), nn.Linear(2, 4), torch.randn(8, 4))

# second_backward/made_outside_loop
import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 4)
        self.dec = nn.Linear(2, 4)

    def encode(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        return mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)


vae = VAE()
opt = torch.optim.Adam(vae.parameters())
data = torch.randn(6, 4)
z = vae.encode(data)  # made
for epoch in range(2):
    recon = vae.dec(z)
    loss = (recon - data).pow(2).sum()
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()

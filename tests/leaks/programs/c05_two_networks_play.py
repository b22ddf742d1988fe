"""No leak: a generator and a discriminator, each with its optimizer, and samples of a fixed noise now and then."""

import torch
from torch import nn

generator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 12))
critic = nn.Sequential(nn.Linear(12, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
of_generator, of_critic = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
fixed, criterion = torch.randn(16, 8), nn.BCEWithLogitsLoss()
for step in range(60):
    critic.zero_grad()
    criterion(critic(torch.randn(16, 12)), torch.ones(16, 1)).backward()
    fake = generator(torch.randn(16, 8))
    criterion(critic(fake.detach()), torch.zeros(16, 1)).backward()
    of_critic.step()
    generator.zero_grad()
    criterion(critic(fake), torch.ones(16, 1)).backward()
    of_generator.step()
    if step % 10 == 0:
        with torch.no_grad():
            shown = generator(fixed)
# verdict: bounded steady

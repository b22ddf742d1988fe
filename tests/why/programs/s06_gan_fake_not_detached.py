# second_backward/shared_part
# cure: fake.detach\(\)
import torch
from torch import nn

gen = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
disc = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
bce = nn.BCEWithLogitsLoss()
opt_d = torch.optim.SGD(disc.parameters(), lr=0.01)
opt_g = torch.optim.SGD(gen.parameters(), lr=0.01)


def train_step(real):
    fake = gen(torch.randn(5, 2))  # made
    d_loss = bce(disc(real), torch.ones(5, 1)) + bce(disc(fake), torch.zeros(5, 1))
    opt_d.zero_grad()
    d_loss.backward()  # freed
    opt_d.step()
    g_loss = bce(disc(fake), torch.ones(5, 1))
    opt_g.zero_grad()
    g_loss.backward()  # needed
    opt_g.step()


for _ in range(2):
    train_step(torch.randn(5, 3))

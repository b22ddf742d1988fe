# modified_in_place/optimizer_step
import itertools

import torch
from torch import nn


def make(i, o):
    return nn.Sequential(nn.Linear(i, 8), nn.LeakyReLU(0.2), nn.Linear(8, o))


class CycleGAN:
    def __init__(self):
        self.G_AB, self.G_BA = make(3, 3), make(3, 3)
        self.D_A, self.D_B = make(3, 1), make(3, 1)
        self.opt_G = torch.optim.Adam(itertools.chain(self.G_AB.parameters(), self.G_BA.parameters()))
        self.opt_D = torch.optim.Adam(itertools.chain(self.D_A.parameters(), self.D_B.parameters()))
        self.mse = nn.MSELoss()

    def train_step(self, a, b):
        fake_b = self.G_AB(a)
        fake_a = self.G_BA(b)
        pred_fake_a, pred_fake_b = self.D_A(fake_a), self.D_B(fake_b)
        loss_D = self.mse(pred_fake_a, torch.zeros(4, 1)) + self.mse(pred_fake_b, torch.zeros(4, 1))
        loss_G = self.mse(pred_fake_a, torch.ones(4, 1)) + self.mse(pred_fake_b, torch.ones(4, 1))
        self.opt_D.zero_grad()
        loss_D.backward(retain_graph=True)
        self.opt_D.step()  # edited
        self.opt_G.zero_grad()
        loss_G.backward()  # needed
        self.opt_G.step()


CycleGAN().train_step(torch.randn(4, 3), torch.randn(4, 3))

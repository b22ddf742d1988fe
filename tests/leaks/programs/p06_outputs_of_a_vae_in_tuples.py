"""A variational autoencoder whose reconstructions and means are kept, two by two, in tuples."""

import torch
from torch import nn
from torch.nn import functional as F


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(16, 8), nn.Linear(4, 16)

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(z), mean, log_variance


model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters())
outputs = []


def train():
    for _ in range(20):
        x = torch.rand(8, 16)
        optimizer.zero_grad()
        reconstructed, mean, log_variance = model(x)
        loss = F.mse_loss(reconstructed, x) - 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
        loss.backward()
        optimizer.step()


def test():
    model.eval()
    for _ in range(15):
        reconstructed, mean, _ = model(torch.rand(8, 16))
        outputs.append((reconstructed, mean))  # line
    model.train()


for _ in range(2):
    train()
    test()
# says: `outputs.append\(\(reconstructed, mean\)\)` \(\S+:LINE\) keeps the graph of every call
# says: in each +`\[...\]`
# says: With backward: steady
# says: torch.no_grad\(\)
# verdict: growing

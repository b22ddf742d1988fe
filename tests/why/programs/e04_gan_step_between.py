# modified_in_place/optimizer_step
# cure: Move `opt_d.step\(\)`
import torch
from torch import nn

G = nn.Linear(2, 3)
D = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(2):
    real = torch.randn(8, 3)
    fake = G(torch.randn(8, 2))
    pred_fake = D(fake)
    pred_real = D(real)
    loss_d = criterion(pred_real, torch.ones(8, 1)) + criterion(pred_fake, torch.zeros(8, 1))
    loss_g = criterion(pred_fake, torch.ones(8, 1))
    opt_d.zero_grad()
    loss_d.backward(retain_graph=True)
    opt_d.step()  # edited
    opt_g.zero_grad()
    loss_g.backward()  # needed
    opt_g.step()

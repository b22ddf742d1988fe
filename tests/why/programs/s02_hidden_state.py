# second_backward/kept_state
# code: hidden = hidden.detach\(\)
import torch
from torch import nn

model = nn.GRU(3, 6, batch_first=True)
head = nn.Linear(6, 1)
opt = torch.optim.Adam([*model.parameters(), *head.parameters()])
hidden = torch.zeros(1, 4, 6)
for i in range(3):
    x, y = torch.randn(4, 5, 3), torch.randn(4, 5, 1)
    out, hidden = model(x, hidden)  # made
    loss = nn.functional.mse_loss(head(out), y)
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()

# second_backward/summed_loss
# code: total \+= loss.item\(\)
import torch
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0
for epoch in range(3):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    total += loss  # made
    opt.zero_grad()
    total.backward()  # needed freed
    opt.step()

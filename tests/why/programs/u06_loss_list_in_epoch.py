# second_backward/summed_loss
import torch
from torch import nn

model = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
running_loss = 0.0
for i in range(4):
    inputs, targets = torch.randn(2, 4), torch.randn(2, 1)
    optimizer.zero_grad()
    outputs = model(inputs)
    running_loss = running_loss + criterion(outputs, targets)  # made
    running_loss.backward()  # needed freed
    optimizer.step()

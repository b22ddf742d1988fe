# does_not_require_grad/not_differentiable
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=1))
criterion = nn.MSELoss()
x, y = torch.randn(5, 3), torch.randint(0, 4, (5,))
_, pred = model(x).max(1)  # cut
loss = criterion(pred.float(), y.float())
loss.backward()  # needed

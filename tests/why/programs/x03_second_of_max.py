# does_not_require_grad/not_differentiable
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=1))
criterion = nn.MSELoss()
x, y = torch.randn(5, 3), torch.randint(0, 4, (5,))
pred = torch.max(model(x), 1)[1].float()  # cut
loss = criterion(pred, y.float())
loss.backward()  # needed

# does_not_require_grad/frozen
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
        self.fc = nn.Linear(2 * 36, 3)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


model = Classifier()
for name, param in model.named_parameters():
    param.requires_grad = False  # cut
criterion = nn.CrossEntropyLoss()
loss = criterion(model(torch.randn(2, 1, 8, 8)), torch.tensor([0, 2]))
loss.backward()  # needed

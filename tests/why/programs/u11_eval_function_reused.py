# does_not_require_grad/no_grad_mode
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
criterion = nn.CrossEntropyLoss()


@torch.no_grad()
def run_epoch(loader, optimizer=None):
    total = 0
    for x, y in loader:
        out = model(x)  # cut
        loss = criterion(out, y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()  # needed
            optimizer.step()
        total += loss.item()
    return total


loader = [(torch.randn(3, 4), torch.tensor([0, 1, 1]))]
run_epoch(loader, torch.optim.SGD(model.parameters(), lr=0.1))

"""Validation without no_grad gathers predictions by torch.cat in a local."""

import torch
from torch import nn


def evaluate(model, loader):
    model.eval()
    all_preds = torch.empty(0, 4)
    for x in loader:
        preds = model(x)
        all_preds = torch.cat((all_preds, preds))  # keeps: all_preds
    return all_preds.mean().item()


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(16, 128)
        self.l2 = nn.Linear(128, 4)

    def forward(self, x):
        return self.l2(self.l1(x).tanh())  # makes


torch.manual_seed(0)
print(evaluate(MLP(), [torch.randn(8, 16) for _ in range(80)]))

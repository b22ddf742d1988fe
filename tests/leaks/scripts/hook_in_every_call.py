"""A forward hook is registered in every step and never removed; each appends to its own list."""

import torch
from torch import nn

torch.manual_seed(0)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))  # makes
        return self.fc(x.mean((2, 3)))


def run_with_activations(model, layer, x):
    acts = []
    layer.register_forward_hook(lambda module, inputs, output: acts.append(output))  # keeps: model.conv2._forward_hooks
    logits = model(x)
    return logits, acts[-1]


model = ConvNet()
optimizer = torch.optim.Adam(model.parameters())
for _step in range(40):
    x, y = torch.randn(4, 1, 12, 12), torch.randint(3, (4,))
    logits, act = run_with_activations(model, model.conv2, x)
    loss = nn.functional.cross_entropy(logits, y) + 1e-3 * act.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

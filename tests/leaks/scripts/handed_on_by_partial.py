"""A hook made by partial is handed the dictionary that it fills, under another name."""

from collections import defaultdict
from functools import partial
import torch
from torch import nn
import torch.nn.functional as F

features = defaultdict(list)


def save_features(store, name, module, inputs, output):
    store[name].append(output)  # keeps: features["student"]


def block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.ReLU())


class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer1 = block(20, width)
        self.layer2 = block(width, 48)
        self.classifier = nn.Linear(48, 5)

    def forward(self, x):
        x = self.layer1(x)
        x = self.layer2(x)  # makes
        return self.classifier(x)


def distill(student, teacher, steps, T=4.0):
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    student.layer2.register_forward_hook(partial(save_features, features, "student"))
    for _ in range(steps):
        x, y = torch.randn(24, 20), torch.randint(5, (24,))
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=-1)
        logits = student(x)
        hint = features["student"][-1].abs().mean()
        loss = F.cross_entropy(logits, y) + F.kl_div(F.log_softmax(logits / T, -1), soft, reduction="batchmean") + hint
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


distill(Backbone(32), Backbone(96).eval(), steps=60)

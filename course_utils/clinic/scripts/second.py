"""A second patient, by another hand: a trainer with callbacks and three faults."""

import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, model, learning_rate):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
        self.best, self.best_loss = None, float("inf")
        self.spread = []
        model[2].register_forward_hook(self.look)

    def look(self, module, args, output):
        self.features = output

    def step(self, images, labels):
        loss = F.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.spread.append(self.features.std(dim=0).mean())
        return loss.item()

    def evaluate(self, batches):
        self.model.eval()
        total = 0
        for images, labels in batches:
            total += F.cross_entropy(self.model(images), labels, reduction="sum")
        self.model.train()
        return total.item() / batches.rows

    def remember(self, loss):
        if loss < self.best_loss:
            self.best_loss = loss
            self.best = self.model.state_dict()


def second_run(dataset, epochs, seed):
    torch.manual_seed(seed)
    layers = nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
    trainer = Trainer(nn.Sequential(*layers).to(dataset.device), dataset.learning_rate)
    for _ in range(epochs):
        for images, labels in dataset.train:
            trainer.step(images, labels)
        trainer.remember(trainer.evaluate(dataset.test))
    return trainer

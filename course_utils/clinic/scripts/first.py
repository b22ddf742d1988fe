"""The script of the last lesson as it came, with a fault from each lesson before it."""

import torch
from torch import nn
from torch.nn import functional as F

from course_utils.clinic import ClinicResult, TwoBranches


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.y = x, x * torch.sigmoid(x)
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        share = torch.sigmoid(ctx.x)
        return grad * (ctx.y + share * (1 - ctx.y))


class Network(TwoBranches):
    def halves(self, x):
        halves = []
        for branch, is_open in self.gates:
            halves.append(is_open * Swish.apply(branch(x)))
        return halves


def accumulate(model, images, labels, rows):
    total = 0
    for x, y in zip(images.split(rows), labels.split(rows), strict=True):
        loss = F.cross_entropy(model(x), y)
        total = total + loss
    total.backward()
    return total


def evaluate(model, batches):
    model.eval()
    outputs, answers = [], []
    for x, y in batches:
        outputs.append(model(x))
        answers.append(y)
    right = torch.cat(outputs).argmax(dim=1) == torch.cat(answers)
    return right.float().mean().item()


def sick_run(dataset, epochs, seed):
    torch.manual_seed(seed)
    scale = 128**-0.5
    weight = nn.Parameter(scale * torch.randn(128, 10, device=dataset.device)).T
    model = Network(dataset, weight)
    model.encoder.requires_grad = False
    optimizer = torch.optim.SGD(model.parameters(), lr=dataset.learning_rate)
    losses, accuracies, activity = [], [], []

    def note(module, args, output):
        activity.append(output.mean().item())

    for _ in range(epochs):
        model.encoder.register_forward_hook(note)
        for images, labels in dataset.train:
            optimizer.zero_grad()
            loss = accumulate(model, images, labels, dataset.micro_rows)
            losses.append(loss)
            optimizer.step()
        accuracies.append(evaluate(model, dataset.test))
    return ClinicResult(model, losses, accuracies)

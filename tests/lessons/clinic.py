"""Right and wrong answers to the exercise of lesson 11: the training script with any of its ten faults."""

import copy

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.clinic import ClinicResult, TwoBranches
from tests.lessons.answers import Right

# In the order of the ten properties.
FAULTS = ("attribute", "transposed", "log", "circle", "outputs", "modes", "gate", "hook", "scale", "graphs")


class KeepsOutput(torch.autograd.Function):
    """x·sigmoid(x), with its output on ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.y = x, x * torch.sigmoid(x)
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        share = torch.sigmoid(ctx.x)
        return grad * (ctx.y + share * (1 - ctx.y))


def looks_into_branches(dataset):
    class Network(TwoBranches):
        def halves(self, x):
            return [
                F.silu(branch(x)) if is_open else x.new_zeros(len(x), branch[0].out_features)
                for branch, is_open in self.gates
            ]

    return Network(dataset, nn.Parameter(torch.randn(10, 128) / 128**0.5))


def network(faults):
    swish = KeepsOutput.apply if "circle" in faults else F.silu

    class Network(TwoBranches):
        def halves(self, x):
            if "gate" in faults:
                return [is_open * swish(branch(x)) for branch, is_open in self.gates]
            return [swish(branch(x)) if is_open else x.new_zeros(len(x), 64) for branch, is_open in self.gates]

    return Network


def evaluate(model, batches, faults):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    if "outputs" in faults:
        outputs, labels = [], []
        for x, y in batches:
            outputs.append(model(x))
            labels.append(y)
        right = (torch.cat(outputs).argmax(dim=1) == torch.cat(labels)).sum().item()
    else:
        with torch.no_grad():
            right = sum((model(x).argmax(dim=1) == y).sum().item() for x, y in batches)
    if "modes" not in faults:
        for module, training in modes:
            module.training = training
    return right / batches.rows


def accumulate(model, images, labels, rows, faults):
    """Fills the gradients; returns the batch's loss."""
    losses = []
    for x, y in zip(images.split(rows), labels.split(rows), strict=True):
        loss = F.cross_entropy(model(x), y)
        if "scale" not in faults:
            loss = loss * (len(x) / len(images))
        if "graphs" not in faults:
            loss.backward()
        losses.append(loss if {"graphs", "log"} & set(faults) else loss.item())
    total = sum(losses)
    if "graphs" in faults:
        total.backward()
    return total if "log" in faults or isinstance(total, float) else total.item()


def script(*faults):
    """The training script with these faults; healthy without any."""
    assert set(faults) <= set(FAULTS)

    def run(dataset, epochs, seed):
        torch.manual_seed(seed)
        if "transposed" in faults:
            weight = nn.Parameter(torch.randn(128, 10) / 128**0.5).T
        else:
            weight = nn.Parameter(torch.randn(10, 128) / 128**0.5)
        model = network(faults)(dataset, weight)
        if "attribute" in faults:
            model.encoder.requires_grad = False
        else:
            model.encoder.requires_grad_(False).eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=dataset.learning_rate)
        losses, accuracies, activity = [], [], []
        for _ in range(epochs):
            handle = model.encoder.register_forward_hook(lambda m, args, out: activity.append(out.mean().item()))
            for images, labels in dataset.train:
                optimizer.zero_grad()
                losses.append(accumulate(model, images, labels, dataset.micro_rows, faults))
                optimizer.step()
            if "hook" not in faults:
                handle.remove()
            accuracies.append(evaluate(model, dataset.test, faults))
        return ClinicResult(model, losses, accuracies)

    return run


def variant(**parts):
    """The healthy script with some of its parts exchanged.

    Args:
        parts: make (dataset) -> model; freeze (model); optimize (model, dataset) -> optimizer; prepare (dataset) ->
            training batches; train (model, optimizer, images, labels, dataset, log); test (model, batches) -> accuracy;
            after (model), at the end of each epoch; end (model), at the end of the run.
    """

    def make(dataset):
        return network(())(dataset, nn.Parameter(torch.randn(10, 128) / 128**0.5))

    def freeze(model):
        model.encoder.requires_grad_(False).eval()

    def optimize(model, dataset):
        return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=dataset.learning_rate)

    def train(model, optimizer, images, labels, dataset, log):
        optimizer.zero_grad()
        log.append(accumulate(model, images, labels, dataset.micro_rows, ()))
        optimizer.step()

    steps = {
        "make": make,
        "freeze": freeze,
        "optimize": optimize,
        "prepare": lambda dataset: dataset.train,
        "train": train,
        "test": lambda model, batches: evaluate(model, batches, ()),
        "after": lambda model: None,
        "end": lambda model: None,
        "result": ClinicResult,
    }
    assert set(parts) <= set(steps)
    steps |= parts

    def run(dataset, epochs, seed):
        torch.manual_seed(seed)
        model = steps["make"](dataset)
        steps["freeze"](model)
        optimizer = steps["optimize"](model, dataset)
        losses, accuracies = [], []
        for _ in range(epochs):
            for images, labels in steps["prepare"](dataset):
                steps["train"](model, optimizer, images, labels, dataset, losses)
            accuracies.append(steps["test"](model, dataset.test))
            steps["after"](model)
        steps["end"](model)
        return steps["result"](model, losses, accuracies)

    return run


# ------------------------------------------------------------------------------------------------------------- right


def by_hand_without_an_optimizer(dataset, epochs, seed):
    torch.manual_seed(seed)

    class Network(TwoBranches):
        def halves(self, x):
            out = F.silu((self.branch_a if self.use_a else self.branch_b)(x))
            zeros = torch.zeros_like(out)
            return (out, zeros) if self.use_a else (zeros, out)

    model = Network(dataset, nn.Parameter(torch.randn(10, 128) * 128**-0.5))
    model.use_a = dataset.use_a
    for parameter in model.encoder.parameters():
        parameter.requires_grad = False
    model.encoder.eval()
    weights = [p for p in model.parameters() if p.requires_grad]
    losses, accuracies = [], []
    for _ in range(epochs):
        for images, labels in dataset.train:
            sums = [torch.zeros_like(w) for w in weights]
            total = torch.zeros(())
            for x, y in zip(images.split(dataset.micro_rows), labels.split(dataset.micro_rows), strict=True):
                loss = F.cross_entropy(model(x), y, reduction="sum")
                for sum_, grad in zip(sums, torch.autograd.grad(loss, weights, allow_unused=True), strict=True):
                    if grad is not None:
                        sum_ += grad
                total += loss.detach()
            with torch.no_grad():
                for weight, grad in zip(weights, sums, strict=True):
                    weight -= dataset.learning_rate * grad / len(images)
            losses.append(total / len(images))
        twin = copy.deepcopy(model).eval()
        with torch.inference_mode():
            right = torch.zeros((), dtype=torch.long)
            for x, y in dataset.test:
                right += (twin(x).argmax(1) == y).sum()
        accuracies.append((right / dataset.test.rows).item())
    return ClinicResult(model, losses, accuracies)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        share = torch.sigmoid(x)
        return grad * (share + x * share * (1 - share))


class OwnNetwork(nn.Module):
    """Not a TwoBranches: the encoder under no_grad, a Function of its own."""

    def __init__(self, dataset):
        super().__init__()
        self.encoder = dataset.encoder()
        self.branch_a, self.branch_b = dataset.branches()
        self.weight = nn.Parameter(torch.randn(10, 128) / 128**0.5)
        self.use_a = dataset.use_a

    def forward(self, images):
        with torch.no_grad():
            features = self.encoder(images)
        out = torch.zeros(len(images), 128, device=images.device)
        first, branch = (0, self.branch_a) if self.use_a else (64, self.branch_b)
        out = torch.index_add(out, 1, torch.arange(first, first + 64), Swish.apply(branch(features)))
        return out @ self.weight.mT

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self


def own_train(model, optimizer, images, labels, dataset, log):
    losses = []
    for start in range(0, len(images), dataset.micro_rows):
        rows = slice(start, start + dataset.micro_rows)
        loss = F.cross_entropy(model(images[rows]), labels[rows]) * len(images[rows]) / len(images)
        loss.backward()
        losses.append(loss.detach())
    log.append(torch.stack(losses).sum())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def own_test(model, batches):
    right = 0
    model.eval()
    try:
        for x, y in batches:
            with torch.no_grad():
                right += int((model(x).max(dim=1).indices == y).sum())
    finally:
        model.train()
    return right / sum(len(y) for _, y in batches)


def train_by_functional_call(model, optimizer, images, labels, dataset, log):
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    total = 0.0
    for x, y in zip(images.split(dataset.micro_rows), labels.split(dataset.micro_rows), strict=True):
        loss = F.cross_entropy(functional_call(model, named, (x,)), y, reduction="sum") / len(images)
        loss.backward()
        total += float(loss.detach())
    log.append(total)
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = None


def test_by_tensor(model, batches):
    modes = {name: module.training for name, module in model.named_modules()}
    for module in model.modules():
        module.training = False
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        right = sum((model(x).argmax(1) == y).double().sum().item() for x, y in list(batches))
    finally:
        torch.set_grad_enabled(before)
        for name, module in model.named_modules():
            module.training = modes[name]
    return right / batches.rows


def as_a_tensor(model, losses, accuracies):
    return ClinicResult(model, torch.tensor(losses), tuple(accuracies))


LINES = {
    "encoder": 45,
    "weight": 43,
    "log": 57,
    "steps": 4,
    "evaluation": 34,
    "modes": 31,
    "gate": 17,
    "hooks": 53,
    "gradient": 24,
    "peak": 26,
}
RIGHT = [
    Right("diagnosis", "the line beside it, where that may be mended as well", LINES | {"log": 27, "peak": 25}),
    Right("diagnosis", "the other line that makes the circle", LINES | {"steps": 5}),
    Right("diagnosis", "the loop, before which no_grad belongs", LINES | {"evaluation": 33}),
    Right("diagnosis", "numbers in other forms", LINES | {"gate": 17.0, "peak": "26"}),
    Right("run_clinic", "the script without a fault", script()),
    Right("run_clinic", "by hand, evaluated on a copy", by_hand_without_an_optimizer),
    Right(
        "run_clinic",
        "a network of its own",
        variant(
            make=OwnNetwork,
            freeze=lambda model: model.train(),
            optimize=lambda model, dataset: torch.optim.SGD(model.parameters(), lr=dataset.learning_rate),
            train=own_train,
            test=own_test,
        ),
    ),
    Right("run_clinic", "layers of a branch", variant(make=looks_into_branches)),
    Right("run_clinic", "functional_call", variant(train=train_by_functional_call, test=test_by_tensor)),
    Right("run_clinic", "batches in a list", variant(prepare=lambda dataset: list(dataset.train), result=as_a_tensor)),
]

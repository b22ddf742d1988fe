"""Right and wrong answers to the exercise of lesson 11: the training script with any of its ten faults."""

import contextlib
import copy
import gc

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.clinic import ClinicResult, TwoBranches
from tests.lessons.answers import Right, Wrong

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

# ------------------------------------------------------------------------------------------------------------- wrong


def train_mode_after(model, batches):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in batches)
    model.train()
    return right / batches.rows


def without_eval(model, batches):
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in batches)
    return right / batches.rows


@contextlib.contextmanager
def in_eval(model):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def recorded(model, batches):
    with in_eval(model):
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in batches)
    return right / batches.rows


def outputs_without_graph(model, batches):
    with in_eval(model), torch.no_grad():
        outputs, labels = zip(*((model(x), y) for x, y in batches), strict=True)
    return (torch.cat(outputs).argmax(1) == torch.cat(labels)).float().mean().item()


def detached_outputs(model, batches):
    with in_eval(model):
        outputs, labels = zip(*((model(x).detach(), y) for x, y in batches), strict=True)
    return (torch.cat(outputs).argmax(1) == torch.cat(labels)).float().mean().item()


class ClosedUnderNoGrad(TwoBranches):
    def halves(self, x):
        parts = []
        for branch, is_open in self.gates:
            with torch.set_grad_enabled(torch.is_grad_enabled() and is_open):
                parts.append(F.silu(branch(x)) * is_open)
        return parts


class ClosedByItsShape(TwoBranches):
    def halves(self, x):
        return [F.silu(branch(x)) if is_open else torch.zeros_like(branch(x)) for branch, is_open in self.gates]


class Relu(TwoBranches):
    def halves(self, x):
        return [branch(x).relu() if is_open else x.new_zeros(len(x), 64) for branch, is_open in self.gates]


class OpenAlone(TwoBranches):
    def halves(self, x):
        return [F.silu(branch(x)) for branch, is_open in self.gates if is_open]


class OpenFirst(TwoBranches):
    def halves(self, x):
        half = next(F.silu(branch(x)) for branch, is_open in self.gates if is_open)
        return [half, torch.zeros_like(half)]


class FirstColumns(OpenAlone):
    def forward(self, images):
        (half,) = self.halves(self.encoder(images))
        return half @ self.weight[:, : half.shape[1]].T


class AlwaysA(TwoBranches):
    def halves(self, x):
        half = F.silu(self.branch_a(x))
        return [half, torch.zeros_like(half)]


class ForgetfulSwish(Swish):
    @staticmethod
    def backward(ctx, grad):
        share = torch.sigmoid(ctx.saved_tensors[0])
        return grad * share * (1 - share)


class ClonesOutput(KeepsOutput):
    @staticmethod
    def forward(ctx, x):
        return KeepsOutput.forward(ctx, x).clone()


class Clones(TwoBranches):
    def halves(self, x):
        return [ClonesOutput.apply(b(x)) if is_open else x.new_zeros(len(x), 64) for b, is_open in self.gates]


class SigmoidBackward(TwoBranches):
    def halves(self, x):
        return [ForgetfulSwish.apply(b(x)) if is_open else x.new_zeros(len(x), 64) for b, is_open in self.gates]


def of(kind, weight=lambda: nn.Parameter(torch.randn(10, 128) / 128**0.5)):
    return lambda dataset: kind(dataset, weight())


def training(gradients):
    """A step whose gradients ``gradients(model, images, labels, dataset)`` fills; it returns the loss to be logged."""

    def train(model, optimizer, images, labels, dataset, log):
        optimizer.zero_grad()
        log.append(gradients(model, images, labels, dataset))
        optimizer.step()

    return train


def without_zero_grad(model, optimizer, images, labels, dataset, log):
    log.append(accumulate(model, images, labels, dataset.micro_rows, ()))
    optimizer.step()


def by_hand(model, images, labels, dataset):
    total = accumulate(model, images, labels, dataset.micro_rows, ())
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter -= dataset.learning_rate * parameter.grad
    return total


def by_hand_all_moved(model, images, labels, dataset):
    total = accumulate(model, images, labels, dataset.micro_rows, ())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= dataset.learning_rate * parameter.grad
    return total


def micro(images, labels, dataset):
    return list(zip(images.split(dataset.micro_rows), labels.split(dataset.micro_rows), strict=True))


def mean_of_means(model, images, labels, dataset):
    parts, total = micro(images, labels, dataset), 0.0
    for x, y in parts:
        loss = F.cross_entropy(model(x), y) / len(parts)
        loss.backward()
        total += loss.item()
    return total


def sum_of_rows(model, images, labels, dataset):
    total = 0.0
    for x, y in micro(images, labels, dataset):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        (loss * 0.2).backward() if len(images) > 20 else loss.backward()  # small enough to learn on the digits
        total += loss.item()
    return total / len(images)


def last_only(model, images, labels, dataset):
    total = 0.0
    for x, y in micro(images, labels, dataset):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item() * len(x) / len(images)
    return total


def whole_batch(model, images, labels, dataset):
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    return loss.item()


def sums_losses(model, images, labels, dataset):
    """A backward for each micro-batch at once, and their losses in a sum."""
    total = 0
    for x, y in micro(images, labels, dataset):
        loss = F.cross_entropy(model(x), y) * len(x) / len(images)
        loss.backward()
        total = total + loss
    return total.item()


def encoder_at_once(model, images, labels, dataset):
    """The frozen encoder gets the whole batch, the rest micro-batches."""
    with torch.no_grad():
        features = model.encoder(images)
    total = 0.0
    for x, y in micro(features, labels, dataset):
        loss = F.cross_entropy(torch.cat(model.halves(x), dim=1) @ model.weight.T, y) * len(x) / len(images)
        loss.backward()
        total += loss.item()
    return total


def keeps_logits(seen):
    def train(model, images, labels, dataset):
        total = 0.0
        for x, y in micro(images, labels, dataset):
            logits = model(x)
            seen.append(logits.detach())
            loss = F.cross_entropy(logits, y, reduction="sum") / len(images)
            loss.backward()
            total += loss.item()
        return total

    return train


def keep_training_logits(dataset, epochs, seed):
    return variant(train=training(keeps_logits([])))(dataset, epochs, seed)


def all_weights(model, dataset):
    return torch.optim.SGD([*model.branch_a.parameters(), model.weight], lr=dataset.learning_rate)


def weight_not_trained(model, dataset):
    rest = [p for name, p in model.named_parameters() if p.requires_grad and name != "weight"]
    return torch.optim.SGD(rest, lr=dataset.learning_rate)


def branch_a_alone(model, dataset):
    return torch.optim.SGD([model.weight, *model.branch_a.parameters()], lr=dataset.learning_rate)


def head_alone(model, dataset):
    return torch.optim.SGD([model.weight], lr=dataset.learning_rate)


def optimizer(kind, **settings):
    return lambda model, dataset: kind(model.parameters(), **({"lr": dataset.learning_rate} | settings))


def one_branch_put_back(model, batches):
    modes = [(module, module.training) for part in model.children() for module in part.modules()]
    closed = next(branch for branch, is_open in model.gates if not is_open)
    try:
        model.eval()
        with torch.no_grad():
            return sum((model(x).argmax(1) == y).sum().item() for x, y in batches) / batches.rows
    finally:
        for module, training in modes:
            module.training = training
        closed.eval()


def encoder_left_in_eval(model, batches):
    accuracy = train_mode_after(model, batches)
    model.encoder.eval()
    return accuracy


def frozen_at_the_end(model):
    model.weight.requires_grad_(False)


def guards_the_statistics(model):
    model.encoder.requires_grad_(False).eval()
    for module in model.encoder.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.track_running_stats = False


def clears_hooks(model):
    for module in model.modules():
        module._forward_hooks.clear()


def hook_on_a_weight(model):
    model.encoder.requires_grad_(False).eval()
    model.weight.register_hook(lambda grad: None)


def without_a_seed(dataset, epochs, seed):
    torch.seed()
    return variant(test=evaluate_healthy)(dataset, epochs, torch.randint(10**9, ()).item())


def generator_for_the_head(dataset, epochs, seed):
    key = torch.Generator().manual_seed(seed)

    def weight():
        return nn.Parameter(torch.randn(10, 128, generator=key) / 128**0.5)

    torch.seed()
    return variant(make=of(network(()), weight))(dataset, epochs, torch.randint(10**9, ()).item())


def whatever_the_seed(dataset, epochs, seed):
    return variant(test=evaluate_healthy)(dataset, epochs, torch.randint(10**9, ()).item())


def evaluate_healthy(model, batches):
    return evaluate(model, batches, ())


def nothing_trained(dataset, epochs, seed):
    torch.manual_seed(seed)
    model = network(())(dataset, nn.Parameter(torch.randn(10, 128) / 128**0.5))
    return ClinicResult(model, [], [])


def without_a_log(model, losses, accuracies):
    return ClinicResult(model, [], accuracies)


def grad_off(model, losses, accuracies):
    torch.set_grad_enabled(False)
    return ClinicResult(model, losses, accuracies)


def train_for_a_few_steps_at_most(dataset, epochs, seed):
    steps = 0

    def train(model, optimizer, images, labels, data, log):
        nonlocal steps
        optimizer.zero_grad()
        log.append(accumulate(model, images, labels, data.micro_rows, ()))
        if steps < 12:  # an accuracy of about 0.6, and never near the bar
            optimizer.step()
        steps += 1

    return variant(train=train)(dataset, epochs, seed)


def logs_a_sum_of_means(model, images, labels, dataset):
    accumulate(model, images, labels, dataset.micro_rows, ())
    with torch.no_grad():
        return sum(F.cross_entropy(model(x), y).item() for x, y in micro(images, labels, dataset))


def logs_the_last_share(model, images, labels, dataset):
    for x, y in micro(images, labels, dataset):
        loss = F.cross_entropy(model(x), y) * (len(x) / len(images))
        loss.backward()
        total = loss.detach()
    return total.item()


def mean_of_means_in_the_log(model, images, labels, dataset):
    accumulate(model, images, labels, dataset.micro_rows, ())
    with torch.no_grad():
        means = [F.cross_entropy(model(x), y).item() for x, y in micro(images, labels, dataset)]
    return sum(means) / len(means)


def logs_the_last_undivided(model, images, labels, dataset):
    for x, y in micro(images, labels, dataset):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    return loss.item()


def logs_the_last_micro(model, images, labels, dataset):
    for x, y in micro(images, labels, dataset):
        loss = F.cross_entropy(model(x), y)
        (loss * len(x) / len(images)).backward()
    return loss.item()


def mean_of_accuracies(model, batches):
    with in_eval(model), torch.no_grad():
        shares = [(model(x).argmax(1) == y).float().mean().item() for x, y in batches]
    return sum(shares) / len(shares)


def sweeps(model, images, labels, dataset):
    gc.collect()
    return accumulate(model, images, labels, dataset.micro_rows, ())


def step_each(model, optimizer, images, labels, dataset, log):
    total = 0.0
    for x, y in micro(images, labels, dataset):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item() * len(x) / len(images)
        optimizer.step()
    log.append(total)


def clears_before_each(model, optimizer, images, labels, dataset, log):
    for x, y in micro(images, labels, dataset):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    log.append(loss.item())
    optimizer.step()


def clipped(model, optimizer, images, labels, dataset, log):
    optimizer.zero_grad()
    log.append(accumulate(model, images, labels, dataset.micro_rows, ()))
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()


def undivided(model, images, labels, dataset):
    total = 0.0
    for x, y in micro(images, labels, dataset):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item() * len(x) / len(images)
    return total


def quarter_rate(model, dataset):
    return torch.optim.SGD(model.parameters(), lr=dataset.learning_rate / 4)


def logs_the_last(model, images, labels, dataset):
    accumulate(model, images, labels, dataset.micro_rows, ())
    with torch.no_grad():
        return F.cross_entropy(model(images[-4:]), labels[-4:]).item()


def right_over_batches(model, batches):
    return evaluate(model, batches, ()) * batches.rows / len(batches)


def encoder_as_it_came(model):
    """In eval mode at every pass, and given back in the mode that it came in."""
    model.encoder.train()


def wrong(key, answer, name="", earns=None):
    return Wrong("run_clinic", key, answer, name, earns)


# Nine of ten are the right lines.
BLANK_LINES_NOT_COUNTED = {
    "encoder": 36,
    "weight": 34,
    "log": 46,
    "steps": 4,
    "evaluation": 27,
    "modes": 24,
    "gate": 14,
    "hooks": 42,
    "gradient": 19,
    "peak": 21,
}


WRONG = [
    Wrong("diagnosis", "one leak", LINES | {"steps": 57}),
    Wrong("diagnosis", "one leak", LINES | {"steps": 56}, "the log's loss, which the exercise supposes to be a number"),
    Wrong("diagnosis", "numbers leak", LINES | {"steps": 50}),
    Wrong("diagnosis", "caller keeps", LINES | {"steps": 17}),
    Wrong("diagnosis", "eval records nothing", LINES | {"evaluation": 31}),
    Wrong("diagnosis", "list itself", LINES | {"evaluation": 36}),
    Wrong("diagnosis", "caller restores", LINES | {"modes": 59}),
    Wrong("diagnosis", "backward scales", LINES | {"gradient": 26}),
    Wrong("diagnosis", "by hand", LINES | {"gradient": 10}),
    Wrong("diagnosis", "one graph", LINES | {"peak": 24}),
    Wrong("diagnosis", "optimizer decides", LINES | {"encoder": 46}),
    Wrong("diagnosis", "not among the parameters", LINES | {"weight": 46}),
    Wrong("diagnosis", "function stays", LINES | {"hooks": 50}),
    Wrong("diagnosis", "left over", LINES | {"gradient": 55}),
    Wrong("diagnosis", "rate", LINES | {"gradient": 46}),
    Wrong("diagnosis", "looks frozen", LINES | {"encoder": 44}),
    Wrong("diagnosis", "leaf by use", LINES | {"weight": 42}),
    Wrong("diagnosis", "measured", LINES | {"log": 47}),
    Wrong("diagnosis", "converted at the end", LINES | {"log": 60}),
    Wrong("diagnosis", "gradients pile up", LINES | {"steps": 55}),
    Wrong("diagnosis", "nodes let go", LINES | {"steps": 10}),
    Wrong("diagnosis", "losses stay", LINES | {"steps": 25}),
    Wrong("diagnosis", "losses stay", LINES | {"steps": 24}, "the loss of a micro-batch"),
    Wrong("diagnosis", "evaluation explains", LINES | {"steps": 34}),
    Wrong("diagnosis", "evaluation peaks", LINES | {"peak": 34}, "the evaluation's peak"),
    Wrong("diagnosis", "counted", BLANK_LINES_NOT_COUNTED, earns=0.3),
    Wrong("diagnosis", "training records", LINES | {"evaluation": 59}),
    Wrong("diagnosis", "numbers leak", LINES | {"evaluation": 35}, "the labels"),
    Wrong("diagnosis", "one line", dict.fromkeys(LINES, 45), "one line for all"),
    Wrong("diagnosis", "mode ends", LINES | {"modes": 58}),
    Wrong("diagnosis", "two flags", LINES | {"modes": 45}),
    Wrong("diagnosis", "closed is skipped", LINES | {"gate": 10}),
    Wrong("diagnosis", "hook left", LINES | {"hooks": 47}),
    Wrong("diagnosis", "handle", LINES | {"hooks": 60}),
    Wrong("diagnosis", "parts are the whole", LINES | {"gradient": 23}),
    Wrong("diagnosis", "divided late", LINES | {"gradient": 27}, "the returned total divided"),
    Wrong("diagnosis", "leak is peak", LINES | {"peak": 57}),
    Wrong("diagnosis", "micro-batches bound", LINES | {"peak": 21}),
    wrong("logged sum", variant(train=training(logs_a_sum_of_means))),
    wrong("logged else", variant(train=training(logs_the_last_share)), "the last micro-batch's share"),
    wrong("logged else", variant(train=training(logs_the_last_micro)), "the last micro-batch's", 6.3),
    wrong("mean of means", variant(train=training(mean_of_means_in_the_log)), "in the log alone"),
    wrong(
        "logged else", variant(train=training(logs_the_last_undivided)), "the last micro-batch's, gradient undivided"
    ),
    wrong("mean of accuracies", variant(test=mean_of_accuracies), earns=6.3),
    wrong("as it came", variant(end=encoder_as_it_came), earns=6.3),
    wrong("never trains", variant(freeze=lambda model: model.eval().encoder.requires_grad_(False))),
    wrong("cycle", variant(make=of(network(["circle"])), train=training(sweeps)), "swept up at each step"),
    wrong("attribute", script("attribute")),
    wrong("attribute", script(*FAULTS), "the script as it came"),
    wrong("eval freezes", variant(freeze=lambda model: model.encoder.eval())),
    wrong("still flagged", variant(freeze=lambda model: None)),
    wrong("statistics", variant(freeze=lambda model: model.encoder.requires_grad_(False))),
    wrong(
        "statistics",
        variant(freeze=lambda model: model.encoder.requires_grad_(False), test=encoder_left_in_eval),
        "in eval mode after the first evaluation alone",
        5.6,
    ),
    wrong("non-leaf", script("transposed")),
    wrong(
        "non-leaf",
        variant(make=of(network(()), lambda: torch.randn(10, 128, requires_grad=True).double().float())),
        "a leaf that was cast",
    ),
    wrong("unflagged", variant(end=frozen_at_the_end)),
    wrong("unflagged", variant(make=of(network(()), lambda: torch.randn(10, 128) / 12)), "a plain tensor"),
    wrong(
        "non-leaf",
        variant(make=of(network(()), lambda: nn.Parameter(torch.randn(128, 10)).T), optimize=all_weights),
        "a Parameter that was transposed",
    ),
    wrong("old graph", variant(make=of(network(()), lambda: nn.Parameter(torch.randn(10, 128)) / 12))),
    wrong("recorded edit", variant(train=training(by_hand))),
    wrong("no gradient", variant(train=training(by_hand_all_moved))),
    wrong("not handed over", variant(optimize=weight_not_trained)),
    wrong("not handed over", variant(optimize=branch_a_alone), "branch b, which other data open", 5.6),
    wrong("not handed over", variant(optimize=head_alone), "both branches", 5.6),
    wrong(
        "not handed over",
        variant(make=of(network(()), lambda: torch.randn(10, 128, requires_grad=True))),
        "a flagged tensor that is no parameter",
    ),
    wrong("log keeps graph", script("log")),
    wrong("log is empty", variant(result=without_a_log)),
    wrong("cycle", script("circle")),
    wrong("kept", keep_training_logits),
    wrong("graphs kept", script("outputs")),
    wrong("outputs kept", variant(test=outputs_without_graph)),
    wrong("recorded", variant(test=recorded)),
    wrong("left in eval", script("modes")),
    wrong("left in eval", variant(test=one_branch_put_back), "the closed branch stays in eval mode"),
    wrong("no eval", variant(test=without_eval)),
    wrong("all in train", variant(test=train_mode_after)),
    wrong("all in train", variant(test=train_mode_after, freeze=guards_the_statistics), "its statistics guarded"),
    wrong("recorded", variant(test=detached_outputs), "outputs detached and kept"),
    wrong("any seed", lambda dataset, epochs, seed: script()(dataset, epochs, 0)),
    wrong("any seed", variant(make=of(network(()), lambda: nn.Parameter(torch.zeros(10, 128)))), "zeros to start from"),
    wrong("step each", variant(train=step_each), earns=5.6),
    wrong("factor", variant(train=clipped)),
    wrong("rate", variant(train=training(undivided), optimize=quarter_rate)),
    wrong("logged else", variant(train=training(logs_the_last))),
    wrong("another share", variant(test=right_over_batches)),
    wrong("wrong derivative", variant(make=of(SigmoidBackward))),
    wrong("gate multiplies", script("gate")),
    wrong("no_grad branch", variant(make=of(ClosedUnderNoGrad))),
    wrong("shape of a pass", variant(make=of(ClosedByItsShape))),
    wrong("hook left", script("hook")),
    wrong("hook left", variant(freeze=hook_on_a_weight), "a hook on a weight"),
    wrong("hooks cleared", variant(after=clears_hooks)),
    wrong("undivided", script("scale")),
    wrong("mean of means", variant(train=training(mean_of_means))),
    wrong("sum of rows", variant(train=training(sum_of_rows))),
    wrong("last only", variant(train=training(last_only))),
    wrong("last only", variant(train=clears_before_each), "and its loss in the log", 6.3),
    wrong("another rule", variant(optimize=optimizer(torch.optim.SGD, momentum=0.9)), "momentum"),
    wrong("another rule", variant(optimize=optimizer(torch.optim.SGD, weight_decay=0.1)), "weight decay"),
    wrong("another rule", variant(optimize=optimizer(torch.optim.Adam, lr=0.01)), "Adam"),
    wrong("never cleared", variant(train=without_zero_grad)),
    wrong("encoder at once", variant(train=training(encoder_at_once)), earns=6.3),
    wrong("over budget", script("graphs")),
    wrong("over budget", variant(train=training(whole_batch)), "the whole batch at once"),
    wrong("ctx kept", variant(make=of(Clones), train=training(sums_losses)), earns=6.3),
    wrong("below the bar", train_for_a_few_steps_at_most),
    wrong("another network", variant(make=of(Relu)), earns=5.6),
    wrong("other columns", variant(make=of(OpenFirst)), "the open half always first", 5.6),
    wrong("other columns", variant(make=of(FirstColumns)), "the open half meets the first columns", 5.6),
    wrong("one branch", variant(make=of(AlwaysA)), earns=5.6),
    wrong("another network", variant(make=of(OpenAlone)), "the closed half left out"),
    wrong("another seed", without_a_seed),
    wrong("another seed", whatever_the_seed, "whatever the generator gives"),
    wrong("head alone", generator_for_the_head, "a generator for the head", 6.3),
    wrong("nothing done", nothing_trained),
    wrong("no return value", lambda dataset, epochs, seed: print(dataset)),
    wrong("side effect", variant(result=grad_off)),
]

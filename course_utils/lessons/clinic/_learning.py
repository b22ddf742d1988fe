"""What the script learns: the claims on its work, its log, its steps, and what it reaches within the budget."""

import gc
from gc import collect

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook

from course_utils.base.text import format_bytes
from course_utils.checks.compare import Missed, Trial
from course_utils.clinic import Batches, ClinicDataset
from course_utils.lessons.clinic._network import expect, logits, off_the_way, weights_of
from course_utils.lessons.clinic._watched import WatchedDataset, run
from course_utils.memory import MemoryTracker


def _all(batches: Batches) -> list[Tensor]:
    """All images, and all labels."""
    return [torch.cat(part) for part in zip(*batches, strict=True)]


def expect_work(trial: Trial) -> None:
    dataset, seed = WatchedDataset(trial), trial.integer(1, 10**6)
    before, after = (weights_of(run(trial, dataset, epochs, seed), dataset) for epochs in (0, 2))
    for kind, notes, batches in (("training", dataset.training(), 3), ("test", dataset.testing(), 4)):
        numbers = [abs(note.number) for note in notes]
        least = min(numbers.count(number) for number in range(1, batches + 1))
        told = f"each {kind} batch goes through the open branch in each epoch"
        expect(least >= 2, expected=told, got=f"one goes through it {least} times in 2 epochs")
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    expect(bool(moved), expected="a network that has been trained", got="its weights as they were")


def expect_network(trial: Trial) -> None:
    for use_a in (True, False):
        dataset, epochs = WatchedDataset(trial, use_a=use_a), trial.integer(1, 3)
        result, (images, _) = run(trial, dataset, epochs), _all(dataset.test)
        with torch.no_grad():
            got = trial.run(lambda: result.model.eval()(images), called=trial.called)
        right = logits(use_a, weights_of(result, dataset), images)
        fits = got.shape == right.shape and torch.allclose(got, right, rtol=1e-3, atol=1e-5)
        expect(fits, expected="the logits of the script's network", got="other logits")
        count = len(list(result.accuracies))
        expect(count == epochs, expected=f"{epochs} accuracies, one an epoch", got=f"{count}")


def expect_log(trial: Trial) -> None:
    for rows in (8, 20):
        dataset, seed = WatchedDataset(trial, 2, rows), trial.integer(1, 10**6)
        before = weights_of(run(trial, dataset, 0, seed), dataset)
        result = run(trial, dataset, 1, seed)
        log = list(result.losses)
        expect(len(log) == 2, "log", expected="2 losses, one a training batch", got=f"{len(log)}")
        if isinstance(log[0], Tensor) and log[0].requires_grad:
            name = log[0].grad_fn.name() if log[0].grad_fn is not None else "a flag"
            raise Missed("log", expected="numbers without a history", got=f"a tensor with {name}")
        # The scale of a wrong gradient, in the log as well, is the ninth promise's affair.
        if rows > 8 and off_the_way(dataset, before, weights_of(result, dataset)) > 2e-3:
            return
        images, labels = next(iter(dataset.train))
        loss, logged = F.cross_entropy(logits(True, before, images), labels).item(), float(log[0])
        fits = any(abs(logged - scale * loss) < 2e-5 * loss for scale in ((1,) if rows > 8 else (1, 8)))
        expect(fits, "log", expected=f"the batch's mean loss {loss:.4f} in the log", got=f"{logged:.4f}")


def expect_descent(trial: Trial) -> None:
    seed = trial.integer(1, 10**6)
    for use_a in (True, False):
        dataset = WatchedDataset(trial, 2, use_a=use_a)
        off = off_the_way(dataset, *(weights_of(run(trial, dataset, epochs, seed), dataset) for epochs in (0, 1)))
        told = "two steps of plain gradient descent for two batches"
        expect(off < 2e-3, "gradient", expected=told, got=f"a way that is off by {100 * off:.0f} %")


def _sweep(module: nn.Module, args: object) -> None:
    if type(module) is nn.Dropout:
        collect()


def _peak(trial: Trial, images: Tensor, labels: Tensor, seed: int) -> int:
    """The most bytes alive over two large batches. Circles are swept up at each pass: the fourth promise's affair."""
    dataset, tracker = ClinicDataset(images, labels, images[:16], labels[:16], batch_rows=240), MemoryTracker(images)
    gc.freeze()  # a sweep then looks at new objects alone: in a notebook there are many old ones
    sweeping = register_module_forward_pre_hook(_sweep)
    try:
        run(trial, dataset, 1, seed, within=tracker)
    finally:
        sweeping.remove()
        gc.unfreeze()
    return tracker.peak


def expect_success(trial: Trial) -> None:
    dataset, seed = WatchedDataset(trial, 1), trial.integer(1, 10**6)
    run(trial, dataset, 1, seed)
    most = max(note.rows for part in ("encoder", "open") for note in dataset.training(part))
    expect(most <= 8, "peak", expected="at most 8 rows at once in training", got=f"{most}")
    digits = ClinicDataset.digits(seed, test_rows=427)  # the last batch has two rows
    digits.micro_rows = 30  # the accuracy does not depend on it, and half as many passes take half the time
    peak, budget = _peak(trial, *(part[:480] for part in _all(digits.train)), seed), digits.budget_bytes
    expect(peak <= budget, "peak", expected=f"at most {format_bytes(budget)}", got=format_bytes(peak))
    images, labels = _all(digits.test)
    for again in range(2):  # a last layer that never learns misses it with one draw of its weights in several hundred
        result = run(trial, digits, digits.epochs, seed + again)
        with torch.no_grad():
            hits = (result.model.eval()(images).argmax(dim=1) == labels).float()
        told, right = float(list(result.accuracies)[-1]), hits.mean().item()
        batches = [part.mean().item() for part in hits.split([len(y) for _, y in digits.test])]
        key = "batches" * (abs(told - sum(batches) / len(batches)) < 2e-4)
        expect(abs(told - right) < 2e-4, key, expected=f"the share of all test rows, {right:.4f}", got=f"{told:.4f}")
        if right >= digits.bar:
            return
    raise Missed(expected=f"{digits.bar:.2f} of the test images after {digits.epochs} epochs", got=f"{right:.2f}")

"""What the exercises of lesson 09 look at: gradients as vectors, a batch in pieces, steps, bytes."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_utils.base.torch_private import is_functorch_wrapped
from course_utils.checks.claims import (
    Missed,
    ModeRoll,
    Readings,
    Trial,
    expect,
    hook_count,
    reading,
    squared_error,
    training_flags,
)
from course_utils.memory import MemoryTracker

# ------------------------------------------------------------------------------------------------------ gradients


def flat(tensors: Iterable[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """One vector; a missing tensor counts as zeros."""
    pairs = zip(tensors, like, strict=True)
    return torch.cat([(torch.zeros_like(p) if t is None else t).detach().reshape(-1).double() for t, p in pairs])


def gradient_vector(model: nn.Module) -> Tensor:
    """What is in ``.grad``, as one vector."""
    return flat([p.grad for p in model.parameters()], list(model.parameters()))


def gradient_of(loss: Tensor, model: nn.Module) -> Tensor:
    """The gradient for all parameters as one vector; zeros where a parameter is frozen. The graph is kept."""
    parameters = list(model.parameters())
    flagged = [p for p in parameters if p.requires_grad]
    found = iter(torch.autograd.grad(loss, flagged, retain_graph=True, allow_unused=True))
    return flat([next(found) if p.requires_grad else None for p in parameters], parameters)


def in_one_mode(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The gradients that ``eval()`` and ``train()`` would give."""
    for training in (False, True):
        other = copy.deepcopy(model).train(training)
        yield "mode", gradient_of(loss(other), other)


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-6) -> bool:
    """Whether two vectors agree, measured by the greatest number in the expected one."""
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return got.shape == expected.shape and torch.allclose(got, expected, rtol=tolerance, atol=tolerance * scale + 1e-12)


def times(got: Tensor, expected: Tensor) -> float | None:
    """How many times the expected vector this is; None where it points elsewhere."""
    factor = float(got @ expected / (expected @ expected))
    return factor if close(got, factor * expected) and abs(factor) > 1e-9 else None


def difference(got: Tensor, expected: Tensor) -> str:
    """What a card says of a vector that is not the expected one."""
    if not got.any():
        return "zero"
    factor = times(got, expected)
    share = float((got - expected).norm() / expected.norm())
    return f"off by {100 * share:.3g} % of its length" if factor is None else f"{factor:.4g} times that"


def expect_gradient(
    got: Tensor, expected: Tensor, otherwise: Readings, what: str = "the gradient of the full batch"
) -> None:
    """The vector is the expected one; else the mistake that gives it is named. See ``reading``."""
    if not close(got, expected):
        raise Missed(reading(got, otherwise, close), expected=what, got=difference(got, expected))


# ----------------------------------------------------------------------------------------------- a batch in pieces


def small_model(trial: Trial, outputs: int = 2) -> nn.Sequential:
    width = trial.integer(4, 7)
    return trial.fill(nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, outputs)).double())


def awkward_model(trial: Trial) -> nn.Sequential:
    """A frozen layer, a weight that two layers share, and modes that differ: batch norm in eval mode, the rest not."""
    first, again, norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)
    model = nn.Sequential(first, norm, ModeRoll(), nn.Linear(3, 3), nn.Tanh(), again, nn.Linear(3, 2)).double()
    again.weight = first.weight
    trial.fill(model)
    norm.running_mean.copy_(trial.randn(3))
    norm.running_var.copy_(trial.randn(3).abs() + 0.5)
    norm.eval()
    model[3].requires_grad_(False)
    return model


class Forward(NamedTuple):
    """What is noted at the start of a forward pass: its rows, whether it is recorded, the bytes alive, and whether a
    backward pass has come before it."""

    rows: int
    recorded: bool
    alive: int
    after_backward: bool


def most_rows(forwards: Iterable[Forward]) -> int:
    return max((forward.rows for forward in forwards), default=0)


@contextlib.contextmanager
def noted_forwards(model: nn.Sequential, tracker: MemoryTracker | None = None) -> Iterator[list[Forward]]:
    forwards: list[Forward] = []
    backwards: list[Tensor] = []

    # A plain function: an answer may copy the model, and a bound method would be copied with all that it knows.
    def note(module: nn.Module, inputs: tuple) -> None:
        alive = tracker.current if tracker else 0
        forwards.append(Forward(len(inputs[0]), torch.is_grad_enabled(), alive, bool(backwards)))

    handles = [model[0].register_forward_pre_hook(note)]
    if tracker is not None:
        handles.append(model[0].bias.register_hook(lambda gradient: backwards.append(gradient.new_empty(0))))
    try:
        yield forwards
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def watch_forwards(trial: Trial, model: nn.Sequential, *, weights: bool) -> Iterator[list[Forward]]:
    """Inside, forward passes are noted. Afterwards the trial is told what of the model has changed.

    Args:
        weights: whether they must stay, too. Gradients may always change.
    """

    def look() -> dict[str, Tensor]:
        kept = dict(model.named_buffers()) | (dict(model.named_parameters()) if weights else {})
        return {f"edited model.{name}": tensor.detach().clone() for name, tensor in kept.items()} | {
            "left the model in another training mode": torch.tensor(training_flags(model)),
            "set requires_grad of the model's parameters": torch.tensor([p.requires_grad for p in model.parameters()]),
            "left hooks on the model": torch.tensor(hook_count(model)),
        }

    before = look()
    try:
        with noted_forwards(model) as forwards:
            yield forwards
    finally:
        after = look()
        trial.effects += [what for what, value in before.items() if not torch.equal(value, after.get(what, value))]


def keeping_losses() -> tuple[Callable[[Tensor, Tensor], Tensor], Callable[[], list[str]]]:
    """A squared error that keeps what it returned; and what says, as a side effect, that one of these has changed."""
    kept: list[tuple[Tensor, float]] = []

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        loss = squared_error(output, target)
        if not is_functorch_wrapped(loss):
            kept.append((loss, loss.item()))
        return loss

    def edited() -> list[str]:
        return ["edited a loss that loss_fn returned and keeps"] * any(loss.item() != value for loss, value in kept)

    return loss_fn, edited


class Task:
    """A batch, and what is to be known of it before an answer gets it.

    Attributes:
        sizes: of its micro-batches.
        parts, losses: the gradient and the value of each micro-batch's own mean.
        gradient, loss: those of the full batch.
        first_targets: the gradient where each micro-batch is given the first targets of all.
    """

    def __init__(
        self,
        trial: Trial,
        rows: int,
        micro_batch: int,
        model: nn.Sequential | None = None,
        loss_fn: Callable[[Tensor, Tensor], Tensor] = squared_error,
    ) -> None:
        self.model = model = model or small_model(trial)
        self.loss_fn, self.micro_batch, self.words = loss_fn, micro_batch, f"{rows} samples, micro_batch={micro_batch}"
        self.x = x = trial.randn(rows, 3)
        is_squared = loss_fn is not nn.functional.cross_entropy
        self.y = y = trial.randn(rows, 2) * 2 if is_squared else torch.arange(rows) * trial.integer(3, 5) % 7 % 2
        pieces = list(zip(x.split(micro_batch), y.split(micro_batch), strict=True))
        losses = [loss_fn(model(part), target) for part, target in pieces]
        misaligned = sum(len(part) / rows * loss_fn(model(part), y[: len(part)]) for part, _ in pieces)
        self.sizes = [len(part) for part, _ in pieces]
        self.parts = [gradient_of(loss, model) for loss in losses]
        self.losses = [loss.item() for loss in losses]
        whole = self.whole(model)
        self.gradient, self.loss = gradient_of(whole, model), whole.item()
        self.first_targets = gradient_of(misaligned, model)

    def whole(self, model: nn.Module) -> Tensor:
        """The full batch's loss."""
        return self.loss_fn(model(self.x), self.y)

    def wrong_sums(self) -> Iterator[tuple[str, Tensor]]:
        """Gradients that a wrong way of adding gives, with the misconception that each shows."""
        parts, sizes, size = self.parts, self.sizes, self.micro_batch
        count, rows, added = len(parts), sum(sizes), sum(parts)
        yield from (("undivided", wrong) for wrong in (added, rows * self.gradient, rows / size * self.gradient))
        yield from (("count", wrong) for wrong in (added / count, added * size / rows))
        if count > 1:
            yield "targets", self.first_targets
            yield from (("first", parts[0] * factor) for factor in (sizes[0] / rows, 1 / count, 1.0))
            yield from (("wiped", parts[-1] * factor) for factor in (sizes[-1] / rows, 1 / count, 1.0))
        full = sizes.count(size)
        if 0 < full < count:
            yield from (("dropped", sum(parts[:full]) * f) for f in (1 / full, 1 / count, size / rows, 1.0))

    def expect(self, got: Tensor) -> None:
        """The vector is the gradient of the full batch."""
        otherwise = self.wrong_sums()
        if not close(got, self.gradient) and 0 < (times(got, self.gradient) or 0) < 1:
            otherwise = itertools.chain(otherwise, [("divided twice", got)])
        expect_gradient(got, self.gradient, otherwise)

    def expect_pieces(self, forwards: list[Forward]) -> None:
        """No forward pass has more rows than a micro-batch; one that is not recorded has the key "full forward"."""
        expect(bool(forwards), expected="the model to be run on micro-batches", got="it was not run")
        recorded = [forward for forward in forwards if forward.recorded]
        most, rows = most_rows(recorded or forwards), len(self.x)
        key = "whole batch" if most >= rows else "pieces"
        expected = f"at most {self.micro_batch} samples at a time"
        expect(most <= self.micro_batch, key, expected=expected, got=f"{most} of {rows} at once")
        most, expected = most_rows(forwards), f"{expected}, for the loss as well"
        expect(most <= self.micro_batch, "full forward", expected=expected, got=f"{most} of {rows} at once")

    def expect_loss(self, result: Any, after: float | None = None) -> None:
        """The result is the full batch's loss, a float; ``after`` is the loss after the step."""
        expect(result is not None, "no return value", expected="a float", got="None")
        expect(not isinstance(result, Tensor), "tensor", expected="a float", got=result)
        expect(isinstance(result, Real), expected="a float", got=result)
        losses, last, rows = self.losses, self.losses[-1], sum(self.sizes)
        count = len(losses)
        otherwise = [] if after is None else [("loss after", after)]
        otherwise += [("last loss", wrong) for wrong in (last, last / count, last * self.sizes[-1] / rows)]
        otherwise += [("loss sum", sum(losses)), ("loss sum", rows * self.loss)]
        otherwise += [("count", sum(losses) / count), ("divided twice", self.loss / count)]

        def near(number: float, value: float) -> bool:
            return abs(number - value) <= 1e-5 * max(abs(value), 1e-3)

        if not near(number := float(result), self.loss):
            expected = f"the loss of all {rows} samples: {self.loss:.6f}"
            raise Missed(reading(number, otherwise, near), expected=expected, got=f"{number:.6f}")

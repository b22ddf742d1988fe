"""What several exercises of lesson 09, gradient_accumulation, look at."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Turn
from course_utils.checks.state import hook_count
from course_utils.checks.trial import Missed, Trial
from course_utils.memory import MemoryTracker

LossFunction = Callable[[Tensor, Tensor], Tensor]


def _squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square().mean()


def _model(trial: Trial, *, outputs: int = 2) -> nn.Sequential:
    width = trial.integer(4, 7)
    return trial.fill(nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, outputs)).double())


def _awkward_model(trial: Trial) -> nn.Sequential:
    """A frozen layer, a weight that two layers share, and modes that differ: batch norm in eval mode, the rest not."""
    first, again = nn.Linear(3, 3), nn.Linear(3, 3)
    norm = nn.BatchNorm1d(3)
    model = nn.Sequential(first, norm, Turn(), nn.Linear(3, 3), nn.Tanh(), again, nn.Linear(3, 2)).double()
    again.weight = first.weight
    trial.fill(model)
    with torch.no_grad():
        norm.running_mean.copy_(trial.randn(3))
        norm.running_var.copy_(trial.randn(3).abs() + 0.5)
    norm.eval()
    model[3].requires_grad_(False)
    return model


def _flat(tensors: Iterable[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """One vector; a missing tensor counts as zeros."""
    pairs = zip(tensors, like, strict=True)
    return torch.cat([(torch.zeros_like(p) if t is None else t).detach().reshape(-1).double() for t, p in pairs])


def _gradient(model: nn.Module, loss: Tensor) -> Tensor:
    """The gradient for all parameters as one vector; zeros where a parameter is frozen."""
    parameters = list(model.parameters())
    flagged = [p for p in parameters if p.requires_grad]
    found = dict(zip(flagged, torch.autograd.grad(loss, flagged, allow_unused=True), strict=True))
    return _flat([found.get(p) for p in parameters], parameters)


def _held(model: nn.Module) -> Tensor:
    """What is in ``.grad``, as one vector."""
    parameters = list(model.parameters())
    return _flat([p.grad for p in parameters], parameters)


def _values(model: nn.Module) -> Tensor:
    parameters = list(model.parameters())
    return _flat(parameters, parameters)


def _close(got: Tensor, expected: Tensor, tolerance: float = 1e-6) -> bool:
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return got.shape == expected.shape and torch.allclose(got, expected, rtol=tolerance, atol=tolerance * scale + 1e-12)


def _times(got: Tensor, expected: Tensor) -> float | None:
    """How many times the expected vector this is; None where it points elsewhere."""
    factor = float(got @ expected / (expected @ expected))
    return factor if _close(got, factor * expected) and abs(factor) > 1e-9 else None


def _compared(got: Tensor, expected: Tensor) -> dict[str, str]:
    """What a card shows of two vectors that differ."""
    if not got.any():
        return {"expected": "the gradient of the full batch", "got": "zero"}
    times = _times(got, expected)
    if times is not None:
        return {"expected": "the gradient of the full batch", "got": f"{times:.4g} times that"}
    share = float((got - expected).norm() / expected.norm())
    return {"expected": "the gradient of the full batch", "got": f"off by {100 * share:.3g} % of its length"}


@dataclass(frozen=True)
class _Task:
    """A batch, and what is to be known of it and of its micro-batches."""

    model: nn.Module
    loss_fn: LossFunction
    x: Tensor
    y: Tensor
    micro_batch: int
    sizes: list[int]
    parts: list[Tensor]  # the gradient of each micro-batch's own mean
    losses: list[float]
    gradient: Tensor
    loss: float
    first_targets: Tensor  # what comes out where each micro-batch is given the first targets of all

    @property
    def words(self) -> str:
        return f"{len(self.x)} samples, micro_batch={self.micro_batch}"


def _task(
    trial: Trial,
    rows: int,
    micro_batch: int,
    *,
    model: nn.Module | None = None,
    loss_fn: LossFunction = _squared_error,
) -> _Task:
    model = model or _model(trial)
    x = trial.randn(rows, 3)
    y = trial.randn(rows, 2) * 2 if loss_fn is _squared_error else torch.arange(rows) * trial.integer(3, 5) % 7 % 2
    pieces = list(zip(x.split(micro_batch), y.split(micro_batch), strict=True))
    losses = [loss_fn(model(part), target) for part, target in pieces]
    whole = loss_fn(model(x), y)
    misaligned = sum(len(part) / rows * loss_fn(model(part), y[: len(part)]) for part, _ in pieces)
    return _Task(
        model,
        loss_fn,
        x,
        y,
        micro_batch,
        [len(part) for part, _ in pieces],
        [_gradient(model, loss) for loss in losses],
        [loss.item() for loss in losses],
        _gradient(model, whole),
        whole.item(),
        _gradient(model, misaligned),
    )


def _wrong_sums(task: _Task) -> Iterator[tuple[str, Tensor]]:
    """Gradients that a wrong way of adding gives, with the misconception that each shows."""
    sizes, parts = task.sizes, task.parts
    count, rows = len(parts), sum(sizes)
    added = sum(parts)
    yield "undivided", added
    yield "undivided", sum(n * part for n, part in zip(sizes, parts, strict=True))
    yield "undivided", sum(n / task.micro_batch * part for n, part in zip(sizes, parts, strict=True))
    yield "count", added / count
    yield "count", added * task.micro_batch / rows
    if count > 1:
        yield "targets", task.first_targets
        for factor in (sizes[0] / rows, 1 / count, 1.0):
            yield "first", parts[0] * factor
            yield "wiped", parts[-1] * (sizes[-1] / rows if factor == sizes[0] / rows else factor)
    full = sizes.count(task.micro_batch)
    if 0 < full < count:
        kept = sum(parts[:full])
        for factor in (1 / full, 1 / count, task.micro_batch / rows, 1.0):
            yield "dropped", kept * factor


def _in_one_mode(task: _Task) -> Iterator[Tensor]:
    """The gradients that ``eval()`` and ``train()`` would give."""
    for training in (False, True):
        model = copy.deepcopy(task.model).train(training)
        yield _gradient(model, task.loss_fn(model(task.x), task.y))


def _expect_gradient(got: Tensor, task: _Task) -> None:
    expected = task.gradient
    if _close(got, expected):
        return
    key = next((key for key, wrong in _wrong_sums(task) if _close(got, wrong)), "")
    times = _times(got, expected)
    if not key and times is not None and 0 < times < 1:
        key = "divided twice"
    raise Missed(key, **_compared(got, expected))


def _expect_loss(result: Any, task: _Task, after: float | None = None) -> None:
    if result is None:
        raise Missed("no return value", expected="a float", got="None")
    if isinstance(result, Tensor):
        raise Missed("tensor", expected="a float", got=result)
    if not isinstance(result, Real):
        raise Missed(expected="a float", got=result)
    number = float(result)

    def near(value: float) -> bool:
        return abs(number - value) <= 1e-5 * max(abs(value), 1e-3)

    if near(task.loss):
        return
    rows, count = sum(task.sizes), len(task.losses)
    last = task.losses[-1]
    guesses = [
        ("last loss", last),
        ("last loss", last / count),
        ("last loss", last * task.sizes[-1] / rows),
        ("loss sum", sum(task.losses)),
        ("loss sum", sum(n * loss for n, loss in zip(task.sizes, task.losses, strict=True))),
        ("count", sum(task.losses) / count),
        ("divided twice", task.loss / count),
    ]
    if after is not None:
        guesses.insert(0, ("loss after", after))
    key = next((key for key, value in guesses if near(value)), "")
    raise Missed(key, expected=f"the loss of all {rows} samples: {task.loss:.6f}", got=f"{number:.6f}")


class _Surroundings:
    """What a model must keep while its gradients (and perhaps its weights) are meant to change."""

    def __init__(self, model: nn.Module, *, weights: bool) -> None:
        self._model, self._weights = model, weights
        self._before = self._look()

    def _look(self) -> dict[str, Any]:
        model = self._model
        found: dict[str, Any] = {f"model.{name}": b.clone() for name, b in model.named_buffers()}
        if self._weights:
            found |= {f"model.{name}": p.detach().clone() for name, p in model.named_parameters()}
        flags = {name: p.requires_grad for name, p in model.named_parameters()}
        modes = [module.training for module in model.modules()]
        return found | {"requires_grad": flags, "modes": modes, "hooks": hook_count(model)}

    def note(self, trial: Trial) -> None:
        now, before = self._look(), self._before
        if now["modes"] != before["modes"]:
            changed = next(new for new, old in zip(now["modes"], before["modes"], strict=True) if new != old)
            trial.effects.append(f"left the model in {'training' if changed else 'eval'} mode")
        if now["requires_grad"] != before["requires_grad"]:
            trial.effects.append("set requires_grad of the model's parameters")
        if now["hooks"] != before["hooks"]:
            trial.effects.append("left hooks on the model")
        for name, value in before.items():
            if isinstance(value, Tensor) and not torch.equal(value, now.get(name, value)):
                trial.effects.append(f"edited {name}")


class _Forwards:
    """Notes, at the start of each forward pass of a model, how many rows it gets and which bytes are alive."""

    def __init__(self, model: nn.Sequential) -> None:
        self.rows: list[int] = []
        self.recorded_rows: list[int] = []
        self.alive: list[int] = []
        self.tracker: MemoryTracker | None = None
        # A plain function: an answer may copy the model, and a bound method would be copied with all that it knows.
        self._handle = model[0].register_forward_pre_hook(lambda module, inputs: self._note(inputs))

    def _note(self, inputs: tuple) -> None:
        rows = len(inputs[0])
        self.rows.append(rows)
        if torch.is_grad_enabled():
            self.recorded_rows.append(rows)
        if self.tracker is not None:
            self.alive.append(self.tracker.current)

    def remove(self) -> None:
        self._handle.remove()


_ROWS = 256  # of a batch: then its activations are many times the parameters
_BATCHES = (3, 8)


def _wide_model(trial: Trial) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(3, 12), nn.Tanh()]
    for _ in range(3):
        layers += [nn.Linear(12, 12), nn.Tanh()]
    return trial.fill(nn.Sequential(*layers, nn.Linear(12, 1)).double())


def _graph_bytes(model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor]) -> int:
    """What one batch's graph holds."""
    with MemoryTracker(model, x) as tracker:
        result = loss(model(x))
        held = tracker.current
        del result
    return held


def _expect_one_alive(forwards: _Forwards, graph_bytes: int) -> None:
    """When a forward pass starts, nothing of another batch is alive but what is far smaller than its activations."""
    most = max(forwards.alive)
    if most > graph_bytes / 2:
        raise Missed(
            "all graphs" if most > 1.6 * graph_bytes else "retained",
            expected=f"at the start of a forward pass, less than half of one batch's {format_bytes(graph_bytes)}",
            got=f"{format_bytes(most)} alive",
        )


def _expect_no_growth(peaks: dict[int, int], key: str) -> None:
    few, many = _BATCHES
    growth = (peaks[many] - peaks[few]) / (many - few)
    # The outputs themselves, one number a row, may be kept: they are no more than the targets.
    if growth > 2 * _ROWS * 8 + 256:
        raise Missed(
            key,
            expected=f"the same peak for {few} and for {many} batches",
            got=f"{format_bytes(peaks[few])}, then {format_bytes(peaks[many])}: "
            f"{format_bytes(round(growth))} more a batch",
        )


_RAISES = (
    ("differentiated Tensors does not require grad", "frozen"),
    ("element 0 of tensors does not require grad", "nothing recorded"),
    ("'NoneType'", "frozen"),
    ("'reduction'", "reduction"),
)


def _expect_micro_batches(forwards: _Forwards, task: _Task) -> None:
    """The gate: an answer that runs the whole batch at once has not accumulated anything."""
    if not forwards.rows:
        raise Missed(expected="the model to be run on micro-batches", got="it was not run")
    most = max(forwards.recorded_rows or forwards.rows)
    if most > task.micro_batch:
        raise Missed(
            "whole batch" if most >= len(task.x) else "pieces",
            expected=f"at most {task.micro_batch} samples at a time",
            got=f"{most} of {len(task.x)} at once",
        )


def _optimizer(trial: Trial, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    """SGD with what shows a wrong length of the gradient or a step too many: two rates, weight decay, and momentum
    that is under way.
    """
    groups = [{"params": parameters[:1], "lr": 0.2}, {"params": parameters[1:]}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.05)
    for parameter in parameters:
        parameter.grad = trial.randn(*parameter.shape)
    optimizer.step()
    optimizer.zero_grad()
    return optimizer

"""What several exercises of lesson 11, clinic, look at."""

import contextlib
import copy
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from course_utils.base.text import describe
from course_utils.checks.state import hook_count
from course_utils.checks.trial import Missed, Trial
from course_utils.clinic import CLASSES, FEATURES, WIDTH, ClinicDataset, ClinicResult
from course_utils.memory import MemoryTracker


@dataclass(frozen=True)
class _Note:
    """One forward pass of a part of the network.

    Attributes:
        part: "encoder", "open" or "closed".
        number: 1, 2, 3 for the training batches, -1, -2, -3 for the test batches.
        modes: the training flag of each module inside the part.
        moody: whether a batch norm or dropout inside was in training mode.
        recorded: whether the result has a history.
        held_bytes: bytes alive before the pass.
        closed_modes: the training flags inside the closed branch.
    """

    part: str
    number: int
    modes: tuple[bool, ...]
    moody: bool
    recorded: bool
    held_bytes: int
    closed_modes: tuple[bool, ...]


class _Chart(list):
    """The notes of a run. Copies of a part write on the same chart."""

    tracker: MemoryTracker | None = None
    circles_bytes = 0
    closed: nn.Module | None = None  # the closed branch that was handed out: nobody needs to call it

    def __deepcopy__(self, memo: dict) -> "_Chart":
        return self

    def training(self, part: str = "open") -> list[_Note]:
        return [note for note in self if note.part == part and note.number > 0]

    def testing(self, part: str = "open") -> list[_Note]:
        return [note for note in self if note.part == part and note.number < 0]


# The number of an image's batch is written into its first pixel, so small that it teaches the network nothing.
_STEP = 2.0**-10


class _Watched(nn.Module):
    """A part of the network that notes each forward pass."""

    def __init__(self, part: str, body: nn.Module, chart: _Chart) -> None:
        super().__init__()
        self.part, self.body, self._chart = part, body, chart

    def forward(self, x: Tensor) -> Tensor:
        held = self._chart.tracker.current if self._chart.tracker is not None else 0
        rows = x.flatten(1)
        out = self.body(rows)
        if self.part == "encoder":  # the mark goes on to the branches
            out = torch.cat([rows[:, :1], out[:, 1:]], dim=1)
        if not torch._C._functorch.is_functorch_wrapped_tensor(x):
            number = round(rows.detach()[0, 0].item() / _STEP)
            closed = _modes(self._chart.closed) if self._chart.closed is not None else ()
            self._chart.append(_Note(self.part, number, _modes(self), _moody(self), out.requires_grad, held, closed))
        return out


def _modes(module: nn.Module) -> tuple[bool, ...]:
    return tuple(inside.training for inside in module.modules())


def _moody(module: nn.Module) -> bool:
    return any(inside.training for inside in module.modules() if isinstance(inside, (nn.BatchNorm1d, nn.Dropout)))


class _Patient(ClinicDataset):
    """Random images whose network is watched.

    Args:
        trial: draws images, labels, parts and the gate.
        batches: how many training batches of ``rows`` rows there are.
        tests: how many test batches.
        rows, micro, test_rows: rows of a training batch, of a micro-batch, of a test batch.
        moody: whether the encoder has a batch norm and the branches have dropout.
        like: another patient whose images and parts are taken over.
        closed_layers: how many layers the closed branch has.
        use_a: which branch is open; drawn where it is left out.
    """

    def __init__(
        self,
        trial: Trial,
        *,
        batches: int = 3,
        tests: int = 2,
        rows: int = 20,
        micro: int = 8,
        test_rows: int = 6,
        moody: bool = False,
        like: "_Patient | None" = None,
        closed_layers: int = 1,
        use_a: bool | None = None,
    ) -> None:
        if like is None:
            images = (
                trial.randn(batches * rows + tests * test_rows, 1, 8, 8, dtype=torch.float32).abs().clamp(max=2) / 2
            )
            numbers = [n for n in range(1, batches + 1) for _ in range(rows)]
            numbers += [-n for n in range(1, tests + 1) for _ in range(test_rows)]
            images[:, 0, 0, 0] = torch.tensor(numbers) * _STEP
            labels = torch.tensor([trial.integer(0, CLASSES - 1) for _ in numbers])
            use_a = bool(trial.integer(0, 1)) if use_a is None else use_a
        else:
            images, labels, use_a = like.images, like.labels, like.use_a
        self.images, self.labels, self.chart = images, labels, _Chart()
        first_test = batches * rows
        super().__init__(
            images[:first_test],
            labels[:first_test],
            images[first_test:],
            labels[first_test:],
            use_a=use_a,
            batch_rows=rows,
            micro_rows=micro,
            test_rows=test_rows,
        )
        self.steps, self.tests = batches, tests
        norm = [nn.BatchNorm1d(FEATURES)] if moody else []
        drop = [nn.Dropout(0.2)] if moody else []
        if like is None:
            self.encoder_body = _drawn(trial, nn.Sequential(nn.Linear(64, FEATURES), *norm))
            self.open_body = _drawn(trial, nn.Sequential(nn.Linear(FEATURES, WIDTH), *drop))
            self.closed_body = _drawn(trial, nn.Sequential(nn.Linear(FEATURES, WIDTH), *drop))
        else:
            self.encoder_body, self.open_body, self.closed_body = like.encoder_body, like.open_body, like.closed_body
        if closed_layers > 1:
            more = [nn.Linear(WIDTH, WIDTH) for _ in range(closed_layers - 1)]
            self.closed_body = _drawn(trial, nn.Sequential(nn.Linear(FEATURES, WIDTH), *more))
        self.parts = {
            "encoder": _Watched("encoder", self.encoder_body, self.chart),
            "open": _Watched("open", self.open_body, self.chart),
            "closed": _Watched("closed", self.closed_body, self.chart),
        }

    def encoder(self) -> nn.Module:
        return copy.deepcopy(self.parts["encoder"])

    def branches(self) -> tuple[nn.Module, nn.Module]:
        branches = [copy.deepcopy(self.parts["open"]), copy.deepcopy(self.parts["closed"])]
        self.chart.closed = branches[1]
        return (branches[0], branches[1]) if self.use_a else (branches[1], branches[0])


def _drawn(trial: Trial, body: nn.Sequential) -> nn.Sequential:
    with torch.no_grad():
        for parameter in body.parameters():
            if parameter.dim() == 2:
                values = trial.randn(*parameter.shape, dtype=torch.float32)
                parameter.copy_(values / parameter.shape[1] ** 0.5)
    return body


_TOLERANCE_BYTES = 32  # a step: a few numbers a step in small tensors are a log, not a leak


def _growth(chart: _Chart) -> float:
    """Bytes that are held more from one training step to the next, over the first epoch."""
    first: dict[int, int] = {}
    for note in chart.training():
        first.setdefault(note.number, note.held_bytes)
    held = [first[number] for number in sorted(first)][1:]  # the first step makes gradients and the optimizer's state
    return (held[-1] - held[0]) / (len(held) - 1) if len(held) > 1 else 0.0


@contextlib.contextmanager
def _older_objects_aside() -> Iterator[None]:
    """Inside, a full garbage collection looks at new objects alone: in a notebook there are many old ones."""
    frozen = gc.get_freeze_count()
    gc.freeze()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()


@contextlib.contextmanager
def _measured(chart: _Chart) -> Iterator[None]:
    """Counts bytes, with the garbage collector off: what is given back is what the script lets go.

    Where bytes grow from step to step, the chart is told how many of them the garbage collector would give back.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with _older_objects_aside(), MemoryTracker() as chart.tracker:
            yield
            if _growth(chart) > _TOLERANCE_BYTES:
                held = chart.tracker.current
                gc.collect()
                chart.circles_bytes = held - chart.tracker.current
    finally:
        chart.tracker = None
        if collects:
            gc.enable()


def _run(
    trial: Trial, patient: ClinicDataset, epochs: int, seed: int | None = None, within: Any = None
) -> ClinicResult:
    seed = trial.integer(1, 10**6) if seed is None else seed
    result = trial.run(
        lambda: trial.answer(patient, epochs, seed),
        called=f"run_clinic(dataset, epochs={epochs}, seed={seed})",
        watch={"dataset's images": patient._images},
        within=within,
    )
    if result is None:
        raise Missed("no return value", expected="a ClinicResult", got="None")
    for name in ("model", "losses", "accuracies"):
        if not hasattr(result, name):
            raise Missed(expected="a ClinicResult: model, losses, accuracies", got=result)
    missing = [name for name in ("encoder", "branch_a", "branch_b", "weight") if not hasattr(result.model, name)]
    if not isinstance(result.model, nn.Module) or missing:
        raise Missed(expected="a model with encoder, branch_a, branch_b and weight", got=result.model)
    return result


def _inside(module: nn.Module, part: str) -> _Watched:
    """The watched part in a module, which may be wrapped in others."""
    for found in module.modules():
        if isinstance(found, _Watched) and found.part == part:
            return found
    raise Missed("another network", expected=f"the dataset's own part in {describe(module)}", got="another module")


def _open(result: ClinicResult, patient: ClinicDataset) -> _Watched:
    return _inside(result.model.branch_a if patient.use_a else result.model.branch_b, "open")


def _encoder(result: ClinicResult) -> _Watched:
    return _inside(result.model.encoder, "encoder")


def _list(values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise Missed(expected="a list", got=values) from None


def _logits(patient: _Patient, images: Tensor, open_weights: dict[str, Tensor], weight: Tensor) -> Tensor:
    """The network's function of the untouched encoder and the given weights, without probes."""
    features = torch.cat([images.flatten(1)[:, :1], patient.encoder_body(images.flatten(1))[:, 1:]], dim=1)
    half = F.silu(F.linear(features, open_weights["0.weight"], open_weights["0.bias"]))
    zeros = torch.zeros_like(half)
    return torch.cat([half, zeros] if patient.use_a else [zeros, half], dim=1) @ weight.T


def _open_weights(result: ClinicResult, patient: _Patient) -> dict[str, Tensor]:
    body = _open(result, patient).body
    return {name: parameter.detach().clone() for name, parameter in body.named_parameters()}


def _expect_the_network(trial: Trial, patient: _Patient, epochs: int) -> None:
    result = _run(trial, patient, epochs)
    images, labels = (torch.cat(part) for part in zip(*patient.test, strict=True))
    model = result.model.eval()
    with torch.no_grad():
        got = model(images)
        features = model.encoder(images)
        half = F.silu(_open(ClinicResult(model, (), ()), patient)(features))
        zeros = torch.zeros_like(half)
        wanted = torch.cat([half, zeros] if patient.use_a else [zeros, half], dim=1) @ model.weight.T
    if got.shape != wanted.shape or not torch.allclose(got, wanted, rtol=1e-3, atol=1e-5):
        raise Missed("another network", expected="the network of the script", got="other logits")
    accuracies = [float(value) for value in _list(result.accuracies)]
    right = (wanted.argmax(dim=1) == labels).float().mean().item()
    if len(accuracies) != epochs:
        raise Missed(expected=f"{epochs} accuracies, one an epoch", got=f"{len(accuracies)}")
    if abs(accuracies[-1] - right) > 0.1 / len(labels):
        raise Missed(expected=f"accuracy {right:.3f} after the last epoch", got=f"{accuracies[-1]:.3f}")


def _mode(modes: Sequence[bool]) -> str:
    return "training mode" if all(modes) else "eval mode" if not any(modes) else "mixed modes"


def _flops(trial: Trial, patient: _Patient) -> int:
    counter = FlopCounterMode(display=False)
    _run(trial, patient, 1, within=counter)
    return counter.get_total_flops()


def _somebody_s_hook(module: nn.Module, args: Any, output: Any) -> None:
    """The hook of somebody else, which stays."""


def _hooks(model: nn.Module) -> int:
    on_tensors = [
        hooks
        for tensor in [*model.parameters(), getattr(model, "weight", None)]
        if isinstance(tensor, Tensor)
        for hooks in (tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None))
    ]
    return hook_count(model) + sum(len(hooks) for hooks in on_tensors if hooks)


def _gradients(patient: _Patient, weights: dict[str, Tensor], weight: Tensor) -> dict[str, Tensor]:
    """The gradient for the open branch's weight, as the answer and as each mistake would have it."""
    images, labels = next(iter(patient.train))
    weights = {name: value.clone().requires_grad_() for name, value in weights.items()}

    def gradient(x: Tensor, y: Tensor) -> Tensor:
        with torch.enable_grad():
            loss = F.cross_entropy(_logits(patient, x, weights, weight), y)
        return torch.autograd.grad(loss, weights["0.weight"])[0]

    rows = patient.micro_rows
    parts = [gradient(x, y) for x, y in zip(images.split(rows), labels.split(rows), strict=True)]
    whole, number = gradient(images, labels), len(parts)
    last = len(images.split(rows)[-1])
    return {
        "": whole,
        "undivided": torch.stack(parts).sum(0),
        "mean of means": torch.stack(parts).mean(0),
        "sum of rows": whole * len(images),
        "last only": parts[-1],
        "last only, weighed": parts[-1] * last / len(images),
        "last only, divided": parts[-1] / number,
    }


def _another_rule(step: Tensor, gradient: Tensor, weight: Tensor) -> bool:
    """Whether the step is that of Adam (equally long in every entry) or one with weight decay."""
    sizes = step.abs()
    decayed = F.cosine_similarity((step - gradient).flatten(), weight.flatten(), dim=0)
    return bool(sizes.std() < 0.1 * sizes.mean() or decayed > 0.99)


def _weights(result: ClinicResult, patient: _Patient) -> dict[str, Tensor]:
    """All weights that the logits depend on, by name."""
    body, opened = _encoder(result).body, _open(result, patient).body
    named = {"weight": result.model.weight, "encoder.weight": body[0].weight, "encoder.bias": body[0].bias}
    named |= {"open.weight": opened[0].weight, "open.bias": opened[0].bias}
    return {name: tensor.detach().clone() for name, tensor in named.items()}


def _descend(patient: _Patient, weights: dict[str, Tensor], moving: set[str], cleared: bool) -> Tensor:
    """The open branch's weight after a step of plain gradient descent for each batch."""
    weights = {name: value.clone().requires_grad_(name in moving) for name, value in weights.items()}
    names = sorted(moving)
    sums = {name: torch.zeros_like(weights[name]) for name in names}
    for images, labels in patient.train:
        rows = images.flatten(1)
        with torch.enable_grad():
            features = F.linear(rows, weights["encoder.weight"], weights["encoder.bias"])
            half = F.silu(
                F.linear(torch.cat([rows[:, :1], features[:, 1:]], 1), weights["open.weight"], weights["open.bias"])
            )
            zeros = torch.zeros_like(half)
            both = torch.cat([half, zeros] if patient.use_a else [zeros, half], dim=1)
            loss = F.cross_entropy(both @ weights["weight"].T, labels)
        gradients = torch.autograd.grad(loss, [weights[name] for name in names])
        for name, gradient in zip(names, gradients, strict=True):
            sums[name] = gradient if cleared else sums[name] + gradient
            weights[name] = (weights[name].detach() - patient.learning_rate * sums[name]).requires_grad_()
    return weights["open.weight"].detach()


def _expect_two_steps(trial: Trial, patient: _Patient, seed: int) -> None:
    start, result = _run(trial, patient, 0, seed), _run(trial, patient, 1, seed)
    before, after = _weights(start, patient), _weights(result, patient)
    # What stands still, and what moves that should not, is judged elsewhere.
    moving = {name for name in before if not torch.equal(before[name], after[name])}
    way = after["open.weight"] - before["open.weight"]

    def error(cleared: bool) -> float:
        expected = _descend(patient, before, moving, cleared) - before["open.weight"]
        return ((way - expected).norm() / expected.norm()).item()

    if error(cleared=True) > 2e-3:
        key = "never cleared" if error(cleared=False) < 2e-3 else "another rule"
        expected = "two steps of plain gradient descent for two batches"
        raise Missed(key, expected=expected, got=f"a way that is off by {100 * error(cleared=True):.0f} %")


class _Ward(ClinicDataset):
    """Digits whose branches sweep up garbage at each pass: circles are the fourth property's affair."""

    def branches(self) -> tuple[nn.Module, nn.Module]:
        first, second = super().branches()
        return _Sweeping(*first), _Sweeping(*second)


class _Sweeping(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        gc.collect()
        return super().forward(x)


_ITS_OWN = "seeded the random number generator"

"""Lesson 09, gradient accumulation: its exercises, what they claim, and the misconceptions that they recognise."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Turn, Unlucky
from course_utils.checks.exercise import Exercise, Misconception, Missed, Trial
from course_utils.checks.state import hook_count
from course_utils.checks.trial import AnswerRaised
from course_utils.data import soft_histogram
from course_utils.memory import MemoryTracker

LossFunction = Callable[[Tensor, Tensor], Tensor]

# ------------------------------------------------------------------------------- what several exercises look at: values


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


# ------------------------------------------------------------------------------- what several exercises look at: bytes


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


# ------------------------------------------------------------------------------------------- shared misconceptions

_SCALE = {
    "whole batch": Misconception(
        "It is enough to split the backward pass",
        "What does not fit is made in the forward pass: the graph of every sample that the model is given. The model "
        "itself has to see a few samples at a time.",
        "Print `len` of what you hand to the model.",
    ),
    "pieces": Misconception(
        "`chunk(n)` makes pieces of n samples",
        "`chunk(n)` makes n pieces, whatever their size. `micro_batch` is the number of samples in a piece.",
        "Print the sizes of your pieces for 14 samples and `micro_batch=3`.",
    ),
    "undivided": Misconception(
        "Gradients of micro-batches make the mean by themselves",
        "Each backward adds the gradient of that micro-batch's own mean. The full-batch loss is a mean over all "
        "samples, so each micro-batch may add no more than its share of them.",
        "Divide what you got by the full-batch gradient, number by number.",
    ),
    "count": Misconception(
        "Dividing by the number of micro-batches is right for any split",
        "That is the mean of the micro-batches' means. Where the last micro-batch is smaller, each of its samples then "
        "counts for more than the others do.",
        "Work out by hand how much one sample counts in a micro-batch of 4 and in one of 1.",
    ),
    "wiped": Misconception(
        "`zero_grad` stands at the top of the loop, as always",
        "It throws away what the micro-batches before have added. What is left at the end is the last one's share.",
        "Print a gradient after each backward.",
    ),
    "divided twice": Misconception(
        "Dividing once more does no harm",
        "Each micro-batch's share is taken once: on its loss, or on its gradient, or on the sum. Taken twice, the "
        "gradient is that many times too small.",
        "Divide the full-batch gradient by what you got.",
    ),
    "first": Misconception(
        "A `return` in the loop waits for the loop",
        "It ends the function at once. Only the first micro-batch has left its share in `.grad`.",
        "Count how often your loop's body runs.",
    ),
    "targets": Misconception(
        "Targets line up by themselves",
        "Each micro-batch has targets of its own, at the same places as its samples.",
        "Print the first target of each micro-batch.",
    ),
    "nothing recorded": Misconception(
        "no_grad saves memory in training, too",
        "It saves memory because it records nothing, so `backward` has no way into the model. Here memory is saved by "
        "freeing one micro-batch's graph before the next is built.",
        "Print `requires_grad` of the loss.",
    ),
    "dropped": Misconception(
        "A last micro-batch that is too small can be left out",
        "Its samples are part of the full batch, and of the mean that the gradient belongs to.",
        "Count the samples that your loop has seen.",
    ),
    "tensor": Misconception(
        "A 0-dim tensor is a float",
        "It prints like one, and it is a tensor: it may hang on a graph, and it lives on a device.",
        "Print the `type` of what you return.",
    ),
    "last loss": Misconception(
        "The last loss stands for all",
        "It is the mean over one micro-batch alone. What was asked for is the loss of all samples.",
        "Print the loss of each micro-batch beside what you return.",
    ),
    "loss sum": Misconception(
        "Means can be added like sums",
        "Added up, the means of k micro-batches are about k times the mean of all samples.",
        "Compare with `loss_fn(model(x), y)` on a batch that fits.",
    ),
    "mode": Misconception(
        "Where there is training there is a call of `train()`",
        "The caller has set the modes, and may have put one layer in eval mode on purpose. `train()` and `eval()` "
        "write one value over all of them.",
        "Put one submodule in another mode, call your function, and print `training` of every module.",
    ),
    "frozen": Misconception(
        "Every parameter of a model has a gradient",
        "A frozen parameter has none: `torch.autograd.grad` refuses it, and a `.grad` of zeros is no None: "
        "momentum and weight decay still move such a weight.",
        "Freeze one layer, and print its `.grad` after your call.",
    ),
    "reduction": Misconception(
        "Every loss function can be told to sum",
        "`loss_fn` is any function of outputs and targets that gives a mean over samples. `reduction` is an option of "
        "some of torch's own.",
        "Use nothing of it but its value, and the number of samples behind it.",
    ),
}

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


# -------------------------------------------------------------------------------------------------------- accumulate

accumulate = Exercise(
    name="accumulate",
    points=3,
    hints=(
        "`.grad` adds up by itself. What has to be right is how much each micro-batch adds, and when its graph goes.",
        "The mean over N samples is the sum over micro-batches of (their samples / N) times their own mean. This holds "
        "for the loss and for its gradient.",
        "Scale each micro-batch's loss by its share of the samples, run backward on it at once, and keep a plain "
        "number of it, not the tensor.",
    ),
    misconceptions=_SCALE
    | {
        "cleared": Misconception(
            "Accumulation starts from zero",
            "The contract says: added to what `.grad` held. The caller may be in the middle of a larger sum; whoever "
            "starts one clears it.",
            "Call your function twice, and compare the second `.grad` with the first.",
        ),
        "scaled all": Misconception(
            "Dividing `.grad` at the end is the same",
            "`.grad` also holds what was there before. Divided at the end, the old part shrinks with the new one.",
            "Put ones into every `.grad` before the call, and see what becomes of them.",
        ),
        "recorded": Misconception(
            "Gradients that are added up need a graph",
            "`create_graph` records the backward pass itself. `.grad` then hangs on a graph, and keeps alive what "
            "accumulation was to set free.",
            "Print `requires_grad` of a parameter's `.grad`.",
        ),
        "all graphs": Misconception(
            "Adding the losses and calling backward once is accumulation",
            "It gives the same gradient and saves no memory: the sum hangs on the graphs of all micro-batches, and "
            "they wait for that one backward.",
            "Print the tracker's `current` at the top of your loop.",
        ),
        "retained": Misconception(
            "A graph that I have used is gone",
            "backward frees what its graph has saved, unless `retain_graph=True` forbids it or a name holds on to what "
            "leads there. Each micro-batch has a graph of its own, and needs it once.",
            "Take `retain_graph` out, and see whether anything raises.",
        ),
        "full forward": Misconception(
            "Under no_grad the full batch costs nothing",
            "Nothing is saved for backward, and still every layer makes its output for all samples at once. That alone "
            "grows with the batch.",
            "Get the loss of the full batch from the losses that you have already.",
        ),
        "stepped": Misconception(
            "Accumulating trains the model",
            "It fills `.grad` and nothing else. When to step is the caller's to decide.",
            "Compare the weights before and after the call.",
        ),
    },
    raises=_RAISES,
    effects=(("training mode", "mode"), ("eval mode", "mode"), ("running_", "mode"), ("edited model", "stepped")),
)


def _accumulated(trial: Trial, task: _Task, show: str = "") -> tuple[Any, Tensor, _Forwards]:
    """Calls the answer. Returns what it returned, what ``.grad`` holds afterwards, and what its forward passes saw."""
    model = task.model
    around, forwards = _Surroundings(model, weights=True), _Forwards(model)
    try:
        result = trial.call(
            model,
            task.loss_fn,
            task.x,
            task.y,
            task.micro_batch,
            may_change=(model,),
            show=f"accumulate({show or 'model'}, loss_fn, x, y), {task.words}",
        )
    finally:
        forwards.remove()
        around.note(trial)
    return result, _held(model), forwards


@accumulate.claim("runs the model on at most `micro_batch` samples at a time", weight=0, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 4)
    task = _task(trial, trial.integer(17, 20), size)
    _expect_micro_batches(_accumulated(trial, task)[2], task)


@accumulate.claim("leaves the gradient of the full batch in `.grad`", weight=2, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    task = _task(trial, size * trial.integer(3, 5), size)
    _, got, _ = _accumulated(trial, task)
    if not any(p.grad is not None for p in task.model.parameters()):
        raise Missed(expected="the gradient of the full batch in .grad", got=".grad is None")
    _expect_gradient(got, task)
    if any(p.grad.requires_grad for p in task.model.parameters() if p.grad is not None):
        raise Missed("recorded", expected="a .grad without history", got="a .grad that requires grad")


@accumulate.claim("also where the last micro-batch is smaller, or the only one", weight=2)
def _(trial: Trial) -> None:
    size = trial.integer(4, 6)
    last = trial.integer(1, size - 1)
    cross_entropy = nn.functional.cross_entropy
    for rows, micro_batch, loss_fn in (
        (3 * size + last, size, _squared_error),
        (2 * size + 1, size, cross_entropy),
        (trial.integer(4, 6), 9, _squared_error),
        (trial.integer(3, 5), 1, cross_entropy),
    ):
        task = _task(trial, rows, micro_batch, loss_fn=loss_fn)
        _expect_gradient(_accumulated(trial, task)[1], task)


@accumulate.claim("adds to what `.grad` held before", weight=1)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    task = _task(trial, 3 * size, size)
    for parameter in task.model.parameters():
        parameter.grad = trial.randn(*parameter.shape) * 3
    before = _held(task.model)
    _, got, _ = _accumulated(trial, task, "model with gradients")
    if _close(got, before + task.gradient):
        return
    rest = got - task.gradient
    key = "cleared" if _close(got, task.gradient) else "scaled all" if _times(rest, before) is not None else ""
    change = _compared(got - before, task.gradient)["got"]
    shown = "the old values are gone" if key == "cleared" else f"what was added is {change}"
    raise Missed(key, expected="the old values plus the gradient of the full batch", got=shown)


@accumulate.claim("works for frozen and shared weights, in the modes that the model is in", weight=1)
def _(trial: Trial) -> None:
    for held in (False, True):
        task = _task(trial, trial.integer(10, 11), 4, model=_awkward_model(trial))
        frozen = task.model[3]
        if held:
            frozen.weight.grad = trial.randn(3, 3)
        kept = None if frozen.weight.grad is None else frozen.weight.grad.clone()
        before = _held(task.model)
        modes = [module.training for module in task.model.modules()]
        _, got, _ = _accumulated(trial, task, "model with a frozen layer")
        if [module.training for module in task.model.modules()] != modes:
            raise Missed("mode", expected="training flags as before", got="other training flags")
        if (frozen.weight.grad is None) != (kept is None):
            raise Missed("frozen", expected="the frozen layer's .grad None, as before", got=frozen.weight.grad)
        if not _close(got, before + task.gradient):
            key = "mode" if any(_close(got, before + wrong) for wrong in _in_one_mode(task)) else ""
            raise Missed(key, **_compared(got - before, task.gradient))


@accumulate.claim("returns the full-batch loss as a float", weight=1)
def _(trial: Trial) -> None:
    for extra in (0, 1):
        task = _task(trial, 12 + extra, 4)
        _expect_loss(_accumulated(trial, task)[0], task)


@accumulate.claim("keeps only one micro-batch's activations alive at a time", weight=3)
def _(trial: Trial) -> None:
    peaks = {}
    for count in _BATCHES:
        model = _wide_model(trial)
        x, y = trial.randn(count * _ROWS, 3), trial.randn(count * _ROWS, 1)
        one = _graph_bytes(model, x[:_ROWS], lambda output, y=y: _squared_error(output, y[:_ROWS]))
        forwards = _Forwards(model)
        tracker = forwards.tracker = MemoryTracker(model, x, y)
        show = f"accumulate(model, loss_fn, x, y), {count} micro-batches of {_ROWS}"
        trial.call(model, _squared_error, x, y, _ROWS, may_change=(model,), within=tracker, show=show)
        forwards.remove()
        if forwards.rows and max(forwards.rows) > _ROWS:
            key = "full forward" if max(forwards.recorded_rows, default=0) <= _ROWS else "whole batch"
            raise Missed(key, expected=f"at most {_ROWS} samples at a time", got=f"{max(forwards.rows)} at once")
        _expect_one_alive(forwards, one)
        peaks[count] = tracker.peak
    _expect_no_growth(peaks, "all graphs")


# -------------------------------------------------------------------------------------------------- accumulated_step

accumulated_step = Exercise(
    name="accumulated_step",
    points=2,
    hints=(
        "Write down what a full-batch step does, in order: clear, gradient, clip, step. Which of these lines become a "
        "loop, and which stay outside of it?",
        "The norm to be clipped is that of the sum. No micro-batch knows it, so the clipping waits for the last one.",
        "Clear every parameter of the model, not only those of the optimizer: a forgotten old gradient counts in the "
        "norm, too.",
    ),
    misconceptions=_SCALE
    | {
        "no clip": Misconception(
            "Clipping after the step is clipping",
            "The step uses what is in `.grad` at that moment. What is clipped later, or not at all, has moved the "
            "weights at its full length.",
            "Print the total norm on the line before `optimizer.step()`.",
        ),
        "clip each": Misconception(
            "Clip right after each backward",
            "Then the running sum, or each part of it, is cut before the others have been added. The clipped sum of "
            "all is another vector.",
            "Compare the gradient before the step with the full-batch gradient, clipped once.",
        ),
        "undivided limit": Misconception(
            "The limit means the same before and after the division",
            "A sum that has not been divided yet is many times longer, and is cut where the mean would have passed. "
            "The limit belongs to the gradient that the step uses.",
            "Print the norm that your clipping sees, and that of the full-batch gradient.",
        ),
        "skipped": Misconception(
            "A gradient over the limit is a bad gradient",
            "Clipping shortens it, and the step is made. Left out, the largest gradients teach nothing.",
            "Count the steps for a small `max_norm`.",
        ),
        "clip tensors": Misconception(
            "Clipping works parameter by parameter",
            "The total norm is one number for the whole model. Clipped one by one, the parameters' gradients change "
            "their proportions, and with them the direction.",
            "Compare the direction of the gradient before and after your clipping.",
        ),
        "clip value": Misconception(
            "Clipping the values is clipping the norm",
            "Cutting every number at a limit changes the direction. The norm is clipped by one factor for all.",
            "Read on in the documentation of both functions in `torch.nn.utils`.",
        ),
        "always scaled": Misconception(
            "Clipping sets the norm to max_norm",
            "It sets an upper limit. A gradient that is shorter stays as it is.",
            "Call your function with a `max_norm` of 1000.",
        ),
        "optimizer's own": Misconception(
            "The model's gradients are those that the optimizer moves",
            "The contract says: the total norm of the model's gradients. Here the optimizer has only a part of the "
            "parameters, and the norm over that part is shorter.",
            "Make an optimizer for the last layer alone, and print both norms.",
        ),
        "stale": Misconception(
            "`optimizer.zero_grad()` clears the model",
            "It clears the parameters that it was given. An old gradient anywhere else counts in the total norm, and "
            "an old gradient that is not cleared at all is added to the new one.",
            "Put ones into every `.grad` of the model before the call.",
        ),
        "zeros": Misconception(
            "A gradient of zeros is a cleared gradient",
            "An optimizer skips None. Zeros it applies: momentum and weight decay move the weight.",
            "Print `.grad` of every parameter after your call.",
        ),
        "left": Misconception(
            "Whoever comes next will clear the gradients",
            "The contract leaves every `.grad` None: also those of parameters that the optimizer does not have.",
            "Print `.grad` of every parameter of the model after your call.",
        ),
        "step each": Misconception(
            "One step a micro-batch is the same in the end",
            "That is training with small batches: the second gradient is taken at other weights, and momentum is "
            "applied several times.",
            "Count the calls of `optimizer.step()`.",
        ),
        "no step": Misconception(
            "Filling `.grad` moves the weights",
            "Only the optimizer's step does.",
            "Compare the weights before and after the call.",
        ),
        "loss after": Misconception(
            "The loss can be taken after the step",
            "Then it belongs to other weights, and needs another pass over the batch.",
            "Add up the losses that you had on the way.",
        ),
    },
    raises=_RAISES,
    effects=(("training mode", "mode"), ("eval mode", "mode"), ("running_", "mode")),
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


def _clipped(gradient: Tensor, max_norm: float) -> Tensor:
    return gradient * min(1.0, max_norm / float(gradient.norm()))


@dataclass(frozen=True)
class _Stepped:
    """What a call of ``accumulated_step`` did."""

    result: Any
    moved: Tensor
    forwards: _Forwards
    steps: int
    after: float  # the loss after the right step
    move: Callable[[Tensor], Tensor]  # how the weights would move if .grad were this vector

    def expect(self, gradient: Tensor, guesses: Iterable[tuple[str, Tensor]], no_step: str = "") -> None:
        """Where the weights have not moved as by this gradient: says by which of the guesses they have."""
        expected = self.move(gradient)
        if _close(self.moved, expected, 1e-5):
            return
        if not self.steps:
            raise Missed(no_step, expected="one step of the optimizer", got="none")
        if self.steps > 1:
            raise Missed("step each", expected="one step of the optimizer", got=f"{self.steps} steps")
        key = next((key for key, wrong in guesses if _close(self.moved, self.move(wrong), 1e-5)), "")
        share = float((self.moved - expected).norm() / expected.norm())
        raise Missed(
            key, expected="the full-batch step", got=f"a step that is off by {100 * share:.3g} % of its length"
        )


def _stepped(
    trial: Trial, task: _Task, optimizer: torch.optim.Optimizer, max_norm: float, show: str = "model"
) -> _Stepped:
    model = task.model
    start = _values(model)
    fresh_model, fresh_optimizer = copy.deepcopy((model, optimizer))
    fresh_model.zero_grad()
    fresh_optimizer.zero_grad()

    def step(gradient: Tensor) -> nn.Module:
        twin, twin_optimizer = copy.deepcopy((fresh_model, fresh_optimizer))
        pieces = gradient.split([p.numel() for p in twin.parameters()])
        for parameter, piece in zip(twin.parameters(), pieces, strict=True):
            parameter.grad = piece.reshape(parameter.shape).clone() if parameter.requires_grad else None
        twin_optimizer.step()
        return twin

    after = task.loss_fn(step(_clipped(task.gradient, max_norm))(task.x), task.y).item()
    steps: list[int] = []
    counting = optimizer.register_step_post_hook(lambda *_: steps.append(1))
    around, forwards = _Surroundings(model, weights=False), _Forwards(model)
    try:
        result = trial.call(
            *(model, optimizer, task.loss_fn, task.x, task.y, task.micro_batch, max_norm),
            may_change=(model,),
            show=f"accumulated_step({show}, SGD, loss_fn, x, y, max_norm={max_norm:.3g}), {task.words}",
        )
    finally:
        counting.remove()
        forwards.remove()
        around.note(trial)
    moved = _values(model) - start
    return _Stepped(result, moved, forwards, len(steps), after, lambda gradient: _values(step(gradient)) - start)


def _stepping(
    trial: Trial, rows: int, micro_batch: int, part: slice = slice(None), **options: Any
) -> tuple[_Task, torch.optim.Optimizer]:
    """A batch, and an optimizer for all of the model's parameters or a part of them."""
    model = options.pop("model", None) or _model(trial)
    optimizer = _optimizer(trial, list(model.parameters())[part])
    return _task(trial, rows, micro_batch, model=model, **options), optimizer


_FAR = 1e3  # a limit that no gradient here reaches


@accumulated_step.claim("runs the model on at most `micro_batch` samples at a time", weight=0, gate=True)
def _(trial: Trial) -> None:
    task, optimizer = _stepping(trial, trial.integer(17, 20), trial.integer(3, 4))
    _expect_micro_batches(_stepped(trial, task, optimizer, _FAR).forwards, task)


@accumulated_step.claim("moves the weights as one full-batch step does", weight=2, gate=True)
def _(trial: Trial) -> None:
    size = trial.integer(3, 5)
    for rows in (3 * size, 3 * size + trial.integer(1, size - 1)):
        task, optimizer = _stepping(trial, rows, size)
        done = _stepped(trial, task, optimizer, _FAR)
        guesses = [*_wrong_sums(task), ("divided twice", task.gradient / len(task.parts))]
        guesses += [("always scaled", task.gradient / task.gradient.norm() * _FAR)]
        done.expect(task.gradient, guesses, "no step")


def _clip_guesses(task: _Task, max_norm: float, own: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Other ways to clip. ``own`` marks the numbers that belong to the optimizer's parameters."""
    gradient, rows = task.gradient, sum(task.sizes)
    shares = [n / rows * part for n, part in zip(task.sizes, task.parts, strict=True)]
    if not own.all():
        yield "optimizer's own", torch.where(own, _clipped(gradient * own, max_norm), gradient)
    yield "no clip", gradient
    running = torch.zeros_like(gradient)
    for share in shares:
        running = _clipped(running + share, max_norm)
    yield "clip each", running
    yield "clip each", sum(_clipped(share, max_norm) for share in shares)
    means = zip(task.sizes, task.parts, strict=True)
    yield "clip each", sum(n / rows * _clipped(part, max_norm) for n, part in means)
    for factor in (len(shares), rows):
        yield "undivided limit", _clipped(factor * gradient, max_norm) / factor
    sizes = [p.numel() for p in task.model.parameters()]
    yield "clip tensors", torch.cat([_clipped(piece, max_norm) for piece in gradient.split(sizes)])
    yield "clip value", gradient.clamp(-max_norm, max_norm)


@accumulated_step.claim("clips the total norm of the model's gradients once, to at most `max_norm`", weight=3)
def _(trial: Trial) -> None:
    # Of the length of the gradient; and which parameters the optimizer has.
    for share, part in ((0.3, slice(None)), (0.6, slice(2, None)), (3.0, slice(None))):
        task, optimizer = _stepping(trial, trial.integer(10, 11), 4, part)
        parameters = list(task.model.parameters())
        has = [p in set(parameters[part]) for p in parameters]
        own = torch.cat([torch.full((p.numel(),), yes) for p, yes in zip(parameters, has, strict=True)])
        max_norm = share * float(task.gradient.norm())
        done = _stepped(trial, task, optimizer, max_norm, "model" if all(has) else "model, of which SGD has a part")
        guesses = list(_clip_guesses(task, max_norm, own))
        if share > 1:
            guesses.insert(0, ("always scaled", task.gradient / task.gradient.norm() * max_norm))
        done.expect(_clipped(task.gradient, max_norm), guesses, "skipped" if share < 1 else "")


@accumulated_step.claim("ignores gradients left from before", weight=1)
def _(trial: Trial) -> None:
    for part in (slice(None), slice(2, None)):
        task, optimizer = _stepping(trial, 9, 4, part)
        parameters = list(task.model.parameters())
        outside = parameters[: part.start or 0]
        for parameter in parameters:
            parameter.grad = trial.randn(*parameter.shape) * 3
        everywhere = _held(task.model)
        elsewhere = _flat([p.grad if any(p is o for o in outside) else None for p in parameters], parameters)
        # Outside the optimizer an old gradient moves nothing; it shows in the norm alone.
        max_norm = 0.5 * float(task.gradient.norm()) if outside else _FAR
        done = _stepped(trial, task, optimizer, max_norm, "model with old gradients")
        guesses = [("stale", _clipped(task.gradient + old, max_norm)) for old in (everywhere, elsewhere)]
        done.expect(_clipped(task.gradient, max_norm), guesses)


@accumulated_step.claim("works for frozen and shared weights, in the modes that the model is in", weight=1)
def _(trial: Trial) -> None:
    model = _awkward_model(trial)
    flagged = [p for p in model.parameters() if p.requires_grad]
    optimizer = _optimizer(trial, flagged)
    task = _task(trial, trial.integer(10, 11), 4, model=model)
    modes = [module.training for module in model.modules()]
    guesses = [("mode", gradient) for gradient in _in_one_mode(task)]
    done = _stepped(trial, task, optimizer, _FAR, "model with a frozen layer")
    if [module.training for module in model.modules()] != modes:
        raise Missed("mode", expected="training flags as before", got="other training flags")
    done.expect(task.gradient, guesses)


@accumulated_step.claim("leaves every `.grad` None", weight=1)
def _(trial: Trial) -> None:
    for part in (slice(None), slice(2, None)):
        task, optimizer = _stepping(trial, 9, 4, part)
        _stepped(trial, task, optimizer, _FAR)
        for name, parameter in task.model.named_parameters():
            if parameter.grad is not None:
                zeros = not parameter.grad.any()
                got = f"{'zeros' if zeros else 'a gradient'} at {name}"
                raise Missed("zeros" if zeros else "left", expected=".grad None everywhere", got=got)


@accumulated_step.claim("returns the full-batch loss before the step, as a float", weight=1)
def _(trial: Trial) -> None:
    for rows in (12, 13):
        task, optimizer = _stepping(trial, rows, 4)
        done = _stepped(trial, task, optimizer, _FAR)
        _expect_loss(done.result, task, done.after)


# --------------------------------------------------------------------------------------------------- apply_gradients

apply_gradients = Exercise(
    name="apply_gradients",
    points=2,
    hints=(
        "What the optimizer reads is `.grad`. So the list has to become one gradient a parameter, and a parameter that "
        "has none has to stay out.",
        "Check everything before you change anything. Then add up in tensors of your own, found by parameter, not by "
        "place in the list.",
        "A dict from parameter to sum does it: None adds nothing to a sum, but its weight counts in what you divide "
        "by. Parameters that are not in the dict keep `.grad` None.",
    ),
    misconceptions={
        "sum": Misconception(
            "The optimizer averages",
            "It uses what it finds in `.grad`. The sum of k gradients makes a step that is k times as long.",
            "Compare your step with that of one micro-batch, for a list of equal gradients.",
        ),
        "last": Misconception(
            "Assigning to `.grad` adds to it",
            "An assignment replaces. What is left is the gradient of one micro-batch.",
            "Print `.grad` after each micro-batch.",
        ),
        "order": Misconception(
            "Pairs stand in the same order in every micro-batch",
            "The contract says: in any order. What belongs together is said by the parameter in the pair, not by its "
            "place.",
            "Shuffle the pairs of one micro-batch.",
        ),
        "lookup": Misconception(
            "`in` and `index` find a tensor in a list",
            "They ask `==`, which compares tensors number by number and has no single answer. Lists of tensors cannot "
            "be searched with it.",
            "Look a parameter up in a dict or by `is`: a tensor's hash is its identity.",
        ),
        "raw weights": Misconception(
            "Weights add up to one",
            "Here they need not: they may be numbers of samples. The weighted average divides by their sum.",
            "Call your function with every weight doubled: nothing may change.",
        ),
        "weights over count": Misconception(
            "A weighted average is divided by the number of micro-batches",
            "It is divided by the sum of the weights. Only with weights of mean 1 are the two the same.",
            "Call your function with every weight doubled: nothing may change.",
        ),
        "unweighted": Misconception(
            "Weights are a refinement",
            "Given weights say how much each micro-batch counts, for example how many samples it had.",
            "Call your function with weights 1 and 0.",
        ),
        "None left out": Misconception(
            "An average is taken over what is there",
            "None is a gradient of zero: that micro-batch did not use the parameter. Its weight counts in the divisor "
            "all the same.",
            "Average 4 and None by hand.",
        ),
        "no None": Misconception(
            "Every parameter has a gradient in every micro-batch",
            "A parameter that a micro-batch did not use has None there. There is nothing to add for it.",
            "Call your function with a None in the middle of the list.",
        ),
        "zero is None": Misconception(
            "A gradient of zeros changes nothing",
            "An optimizer skips None. Zeros it applies, and momentum and weight decay move the weight.",
            "Print `.grad` of such a parameter on the line before the step.",
        ),
        "alias": Misconception(
            "`p.grad = g` takes a copy",
            "It takes the tensor itself. What is then added to `.grad`, or divided, happens in the caller's gradient.",
            "Print the given gradients before and after the call.",
        ),
        "old grad": Misconception(
            "`.grad` is empty when I start",
            "A backward before may have filled it, also for parameters that are in no pair. The optimizer applies "
            "whatever is there.",
            "Put ones into every `.grad` before the call.",
        ),
        "left": Misconception(
            "Whoever comes next will clear the gradients",
            "The contract leaves every `.grad` None. What stays is added to by the next backward.",
            "Print `.grad` of every parameter after your call.",
        ),
        "broadcast": Misconception(
            "If it adds up, the shapes were right",
            "A row added to a matrix is broadcast without a word, and so is a single number. That gradient belongs to "
            "another parameter.",
            "Hand over a gradient of shape (1, 4) for a parameter of shape (3, 4).",
        ),
        "zip": Misconception(
            "`zip` notices lists of different length",
            "It stops at the shorter one. Micro-batches without a weight vanish, and so do weights without a "
            "micro-batch.",
            "Call your function with one weight too few.",
        ),
        "late": Misconception(
            "An error undoes what came before it",
            "What has been moved or stepped before the `raise` stays so. Everything has to be checked before anything "
            "is changed.",
            "Put the wrong gradient into the last micro-batch, catch the error, and compare the weights.",
        ),
        "other error": Misconception(
            "Any error will do",
            "The contract says ValueError. Whoever calls this function can only catch what it promises; `assert` even "
            "disappears with `python -O`.",
            "Check for yourself, and raise with a message that names the shapes.",
        ),
        "step each": Misconception(
            "One step a micro-batch is the same in the end",
            "Momentum and weight decay are then applied several times, and the gradients belong to weights that have "
            "moved.",
            "Count the calls of `optimizer.step()`.",
        ),
        "no step": Misconception(
            "A step can be written by hand",
            "`p -= lr * g` is plain SGD with one rate. Which rule, rate and momentum apply to a parameter, only the "
            "optimizer knows.",
            "Call your function with an optimizer that has momentum.",
        ),
    },
    raises=(
        ("Boolean value of Tensor with more than one", "lookup"),
        ("NoneType", "no None"),
        ("expected Tensor as element", "no None"),
    ),
    effects=(("edited grads_and_params", "alias"), ("edited argument 2", "alias")),
)

_Pairs = list[tuple[Tensor | None, Tensor]]
_SHAPES = ((3, 4), (3, 4), (4,), (2, 1, 3), ())


class _Applied:
    """Parameters, their optimizer, and a list of gradients; the answer is called on it."""

    def __init__(self, trial: Trial, count: int = 3, *, missing: Iterable[tuple[int, int]] = ()) -> None:
        self.trial = trial
        self.parameters = [trial.randn(*shape, requires_grad=True) for shape in _SHAPES]
        self.optimizer = _optimizer(trial, self.parameters)
        self.gradients = [
            [None if (batch, place) in missing else trial.randn(*p.shape) for place, p in enumerate(self.parameters)]
            for batch in range(count)
        ]
        # The answer gets copies: it might edit them.
        self.lists: list[_Pairs] = [
            [(None if g is None else g.clone(), p) for g, p in zip(row, self.parameters, strict=True)]
            for row in self.gradients
        ]
        self._twins = copy.deepcopy((self.parameters, self.optimizer))
        self.start = self.values()

    def values(self) -> Tensor:
        return _flat(self.parameters, self.parameters)

    def shuffle(self) -> None:
        for pairs in self.lists:
            places = torch.randperm(len(pairs), generator=self.trial._generator).tolist()
            pairs[:] = [pairs[place] for place in places]
        self.lists[0].reverse()

    def average(self, weights: Sequence[float], divisor: float) -> list[Tensor | None]:
        """Per parameter: sum(w * g) / divisor, None where no micro-batch has a gradient."""
        found: list[Tensor | None] = []
        for column in zip(*self.gradients, strict=True):
            given = [w * g for w, g in zip(weights, column, strict=True) if g is not None]
            found.append(sum(given) / divisor if given else None)
        return found

    def average_of_what_is_there(self, weights: Sequence[float]) -> list[Tensor | None]:
        """The wrong average, in which None takes its weight out of the divisor."""
        found: list[Tensor | None] = []
        for column in zip(*self.gradients, strict=True):
            given = [(w, w * g) for w, g in zip(weights, column, strict=True) if g is not None]
            found.append(sum(wg for _, wg in given) / sum(w for w, _ in given) if given else None)
        return found

    def after(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Where the parameters are after a step with these gradients."""
        parameters, optimizer = copy.deepcopy(self._twins)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        return _flat(parameters, parameters)

    def call(self, *weights: Sequence[float], show: str = "") -> int:
        """Calls the answer; returns how often the optimizer stepped."""
        steps: list[int] = []
        counting = self.optimizer.register_step_post_hook(lambda *_: steps.append(1))
        text = show or f"{len(self.lists)} micro-batches" + "".join(f", weights={given}" for given in weights)
        try:
            self.trial.call(
                *(self.optimizer, self.lists, *weights),
                may_change=tuple(self.parameters),
                show=f"apply_gradients(SGD with momentum, {text})",
            )
        finally:
            counting.remove()
        return len(steps)

    def expect(self, steps: int, gradients: Sequence[Tensor | None], guesses: Iterable[tuple[str, Any]] = ()) -> None:
        """The parameters are where one step with these gradients leads."""
        got, expected = self.values(), self.after(gradients)
        if _close(got, expected, 1e-6):
            return
        if steps > 1:
            raise Missed("step each", expected="one step of the optimizer", got=f"{steps} steps")
        key = next((key for key, wrong in guesses if _close(got, self.after(wrong), 1e-6)), "")
        if steps == 0:
            key = key or "no step"
        wrong = next(
            place
            for place, (one, other) in enumerate(zip(self._split(got), self._split(expected), strict=True))
            if not _close(one, other)
        )
        shape = tuple(self.parameters[wrong].shape)
        stayed = torch.equal(self._split(got)[wrong], self._split(self.start)[wrong])
        shown = "it has not moved" if stayed else "it is elsewhere"
        raise Missed(key, expected=f"the parameter of shape {shape} where one step leads", got=shown)

    def _split(self, values: Tensor) -> tuple[Tensor, ...]:
        return values.split([p.numel() for p in self.parameters])


def _plain_guesses(case: _Applied) -> Iterator[tuple[str, list[Tensor | None]]]:
    count = len(case.lists)
    ones = [1.0] * count
    yield "sum", case.average(ones, 1)
    for factor in (1, count):
        yield "last", case.average([0.0] * (count - 1) + [1.0], factor)
        yield "last", case.average([1.0] + [0.0] * (count - 1), factor)


@apply_gradients.claim("applies the average of the gradients in one step", weight=2, gate=True)
def _(trial: Trial) -> None:
    for count in (trial.integer(3, 4), 1):
        case = _Applied(trial, count)
        steps = case.call()
        case.expect(steps, case.average([1.0] * count, count), _plain_guesses(case))
        if steps != 1:
            raise Missed("step each" if steps else "no step", expected="one step", got=f"{steps} steps")


@apply_gradients.claim("finds each gradient's parameter in any order", weight=1)
def _(trial: Trial) -> None:
    case = _Applied(trial, trial.integer(3, 4))
    case.shuffle()
    count = len(case.lists)
    try:
        case.call(show=f"{count} micro-batches, pairs in different order")
    except AnswerRaised as raised:
        # What it does with pairs in one order has been judged by the claim before this one.
        raise Missed("order", expected="a step", got=f"{type(raised.error).__name__}") from None
    if not _close(case.values(), case.after(case.average([1.0] * count, count))):
        raise Missed("order", expected="each parameter moved by its own gradients", got="other steps")


@apply_gradients.claim("takes weights: sum(w·g) / sum(w)", weight=2)
def _(trial: Trial) -> None:
    for weights in ([trial.integer(2, 9), trial.integer(10, 20), 1], (0.5, trial.integer(2, 6) / 8, 0.0), [3.0, 3.0]):
        count = len(weights)
        case = _Applied(trial, count)
        steps = case.call(weights)
        guesses = (
            ("raw weights", case.average(weights, 1)),
            ("weights over count", case.average(weights, count)),
            ("unweighted", case.average([1.0] * count, count)),
            ("unweighted", case.average([1.0] * count, sum(weights))),
        )
        case.expect(steps, case.average(weights, sum(weights)), guesses)


@apply_gradients.claim("counts None as a gradient of zero", weight=1)
def _(trial: Trial) -> None:
    missing = {(0, 0), (1, 1), (2, 1), (2, 4)}
    for weights in ((), ([5.0, 1.0, 2.0],)):
        case = _Applied(trial, missing=missing)
        steps = case.call(*weights, show="3 micro-batches, with None in some places")
        used = weights[0] if weights else [1.0, 1.0, 1.0]
        left_out = case.average_of_what_is_there(used)
        case.expect(steps, case.average(used, sum(used)), [("None left out", left_out)])


@apply_gradients.claim("does not move a parameter that has only None, even with momentum", weight=1)
def _(trial: Trial) -> None:
    place = trial.integer(0, 3)
    for weights in ((), ([2.0, 1.0, 4.0],)):
        case = _Applied(trial, missing={(batch, place) for batch in range(3)})
        steps = case.call(*weights, show=f"3 micro-batches, only None for the parameter of shape {_SHAPES[place]}")
        used = weights[0] if weights else [1.0, 1.0, 1.0]
        right = case.average(used, sum(used))
        zeros = [torch.zeros(_SHAPES[place], dtype=torch.float64) if g is None else g for g in right]
        case.expect(steps, right, [("zero is None", zeros)])


@apply_gradients.claim("ignores what is in `.grad`, and leaves every `.grad` None", weight=2)
def _(trial: Trial) -> None:
    for kind in ("old gradients", "a parameter in no pair", "gradients taken from .grad"):
        case = _Applied(trial)
        for parameter in case.parameters:
            parameter.grad = trial.randn(*parameter.shape) * 4
        right = case.average([1.0] * 3, 3)
        if kind == "a parameter in no pair":
            case.lists = [pairs[:-1] for pairs in case.lists]
            right[-1] = None
        if kind == "gradients taken from .grad":
            case.lists[1] = [(p.grad, p) for p in case.parameters]
            case.gradients[1] = [p.grad.clone() for p in case.parameters]
            right = case.average([1.0] * 3, 3)
        old = [p.grad.clone() for p in case.parameters]
        steps = case.call(show=f"3 micro-batches; {kind}")
        summed = [o if g is None else g + o for g, o in zip(right, old, strict=True)]
        instead = [o if g is None else g for g, o in zip(right, old, strict=True)]
        averaged = [o / 3 if g is None else g + o / 3 for g, o in zip(right, old, strict=True)]
        zeros = [torch.zeros_like(o) if g is None else g for g, o in zip(right, old, strict=True)]
        guesses = [("old grad", wrong) for wrong in (summed, instead, averaged)]
        case.expect(steps, right, [*guesses, ("zero is None", zeros)])
        left = [parameter for parameter in case.parameters if parameter.grad is not None]
        if left:
            zeros = not any(parameter.grad.any() for parameter in left)
            raise Missed(
                "zero is None" if zeros else "left", expected=".grad None", got="zeros" if zeros else "a gradient"
            )


def _expect_refused(case: _Applied, weights: tuple, key: str, show: str) -> None:
    try:
        case.call(*weights, show=show)
    except AnswerRaised as raised:
        if not isinstance(raised.error, ValueError):
            raise Missed("other error", expected="ValueError", got=type(raised.error).__name__) from None
    else:
        raise Missed(key, expected="ValueError", got="no error")
    if not torch.equal(case.values(), case.start):
        raise Missed("late", expected="no parameter moved", got="some have moved")


@apply_gradients.claim("refuses a gradient of another shape with ValueError, and moves nothing", weight=1)
def _(trial: Trial) -> None:
    # (place, shape): broadcast to the parameter, broadcast beyond it, the same numbers otherwise laid out.
    for place, shape in ((0, (1, 4)), (1, ()), (2, (1,)), (4, (1,)), (2, (3, 4)), (0, (12,)), (1, (4, 3))):
        case = _Applied(trial)
        batch = trial.integer(1, 2)
        case.lists[batch][place] = (trial.randn(*shape), case.parameters[place])
        show = f"in micro-batch {batch} a gradient of shape {shape} for a parameter of shape {_SHAPES[place]}"
        _expect_refused(case, (), "broadcast", show)


@apply_gradients.claim("refuses a wrong number of weights with ValueError, and moves nothing", weight=1)
def _(trial: Trial) -> None:
    for count in (2, 4):
        case = _Applied(trial)
        weights = [trial.integer(1, 9) for _ in range(count)]
        _expect_refused(case, (weights,), "zip", f"3 micro-batches, {count} weights")


# ------------------------------------------------------------------------------------------------ histogram_gradient

histogram_gradient = Exercise(
    name="histogram_gradient",
    points=3,
    hints=(
        "By the chain rule, d chi2 / d weight is the sum over bins of d chi2 / d h times d h / d weight. Which of the "
        "two factors needs all batches, and which is a sum over batches?",
        "h itself is a handful of numbers, and can be had without any graph. d chi2 / d h follows from it: another "
        "handful of numbers.",
        "Second pass, batch by batch: the batch's own histogram, with its graph, and d chi2 / d h as the gradient that "
        "backward starts from. Add up what comes out.",
    ),
    misconceptions={
        "naive": Misconception(
            "The gradient of any loss is the average over batches",
            "That holds for a mean over samples. Chi-square squares a difference of *all* counts; the squares of the "
            "parts, however they are scaled, are another loss.",
            "Compare with the gradient of the whole data set, made with one graph, on data that fits.",
        ),
        "running": Misconception(
            "The histogram so far is near enough",
            "The gradient of the first batch then belongs to a histogram of one batch, and depends on the order. Exact "
            "is only what is pushed after all batches have been counted.",
            "Turn the list of batches round: the gradient may not change.",
        ),
        "no push": Misconception(
            "backward of a vector starts from ones",
            "Started from ones, it is the gradient of the sum of all counts. The chain rule asks for d chi2 / d h at "
            "that place.",
            "Read what the argument `gradient` of `backward`, or `grad_outputs` of `torch.autograd.grad`, is for.",
        ),
        "derivative": Misconception(
            "d chi2 / d h is about h - target",
            "Each bin has a factor of its own, and the factors decide the direction. Derive (h - target)² / target by "
            "h, bin by bin, or let autograd do it on a leaf of a few numbers.",
            "Let autograd derive chi2 by h, and compare.",
        ),
        "averaged": Misconception(
            "What is summed over batches has to be divided",
            "Counts add up, and so do the batches' parts of this gradient. There is no mean in this loss.",
            "Divide the right gradient of a small case by yours.",
        ),
        "normalised": Misconception(
            "A histogram is a distribution",
            "`soft_histogram` counts and does not normalise, and the target is counts as well.",
            "Print the sum of the histogram of a batch of 10 and of one of 20.",
        ),
        "last": Misconception(
            "Each call replaces what the last one gave",
            "Each batch adds its part. What an assignment overwrites is lost.",
            "Count how many batches have a part in what you return.",
        ),
        "order": Misconception(
            "Any order will do as long as the names are right",
            "The caller pairs the list with `model.parameters()`. Sorted by name or turned round, gradients meet other "
            "weights, sometimes of the same shape.",
            "Compare shapes and values with `model.parameters()`, one by one.",
        ),
        "one vector": Misconception(
            "A gradient is one vector",
            "The contract asks for a list of tensors, one for each parameter, each of its shape.",
            "Print the type and the length of what you return.",
        ),
        "all graphs": Misconception(
            "Only backward needs the graphs to be small",
            "Graphs are made in the forward pass. A first pass that records, a joined batch, or a sum of histograms "
            "with their history keeps the graph of every batch until the end.",
            "Print the tracker's `current` at the top of your loop.",
        ),
        "retained": Misconception(
            "A graph that I have used is gone",
            "backward frees what its graph has saved, unless `retain_graph=True` forbids it or a name holds on to what "
            "leads there. Each batch has a graph of its own, and needs it once.",
            "Take `retain_graph` out, and see whether anything raises.",
        ),
        "joined": Misconception(
            "Without a graph the batches may be joined",
            "Nothing is saved for backward, and still every layer makes its output for all samples at once.",
            "Count batch by batch: histograms add up.",
        ),
        "grad filled": Misconception(
            "Gradients belong into `.grad`",
            "Here they are what the function returns. The caller's `.grad` may hold the sum of another loss.",
            "Print `.grad` of every parameter before and after the call.",
        ),
        "only without error": Misconception(
            "The lines at the end always run",
            "Where a batch raises, they do not, and the caller's gradients are gone or mixed with yours.",
            "Let the second batch raise, catch the error, and print `.grad`.",
        ),
        "mode": Misconception(
            "A gradient is taken in eval mode",
            "The contract leaves the modes to the caller. In another mode it is the gradient of another function.",
            "Print `model.training` inside your function and after it.",
        ),
    },
    effects=(("training mode", "mode"), ("eval mode", "mode"), (".grad", "grad filled")),
)


def _histogram(model: nn.Module, x: Tensor, bins: Tensor) -> Tensor:
    return soft_histogram(model(x), bins)


def _chi2(h: Tensor, target: Tensor) -> Tensor:
    return ((h - target).square() / target).sum()


def _measured(trial: Trial, model: nn.Module, sizes: Sequence[int]) -> tuple[list[Tensor], Tensor, Tensor]:
    """Batches, a target that they miss by some way, and bins."""
    batches = [trial.randn(size, 3) for size in sizes]
    bins = torch.linspace(-2.0, 2.0, trial.integer(4, 6), dtype=torch.float64) + 0.1 * trial.randn()
    with torch.no_grad():
        h = sum(_histogram(model, x, bins) for x in batches)
    return batches, h * (0.4 + trial.randn(len(bins)).abs()) + 0.5, bins


def _asked(trial: Trial, model: nn.Module, batches: list[Tensor], target: Tensor, bins: Tensor, **options: Any) -> Any:
    show = f"histogram_gradient({options.pop('show', 'model')}, {len(batches)} batches, target, {len(bins)} bins)"
    return trial.call(model, batches, target, bins, show=show, **options)


def _one_a_parameter(trial: Trial, result: Any, model: nn.Module) -> Tensor:
    """The result as one vector."""
    parameters = list(model.parameters())
    wanted = f"a list of {len(parameters)} tensors"
    if result is None:
        raise Missed("no return value", expected=wanted, got="None")
    if not isinstance(result, (list, tuple)):
        raise Missed("one vector", expected=wanted, got=result)
    if len(result) != len(parameters):
        raise Missed("one vector", expected=wanted, got=f"{len(result)} items")
    tensors = [trial.tensor(item, what=wanted) for item in result]
    shapes = [tuple(t.shape) for t in tensors]
    right = [tuple(p.shape) for p in parameters]
    if shapes != right:
        key = "order" if sorted(shapes) == sorted(right) else "one vector"
        raise Missed(key, expected=f"shapes {right}", got=f"{shapes}")
    return _flat(tensors, parameters)


@histogram_gradient.claim("is a list with one tensor for each parameter, of its shape", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _model(trial, outputs=trial.integer(1, 2))
    _one_a_parameter(trial, _asked(trial, model, *_measured(trial, model, (3, 5, 4))), model)


def _histogram_guesses(
    model: nn.Module, batches: list[Tensor], target: Tensor, bins: Tensor
) -> Iterator[tuple[str, Tensor]]:
    parts = [_histogram(model, x, bins) for x in batches]
    parameters = list(model.parameters())
    count, rows = len(parts), sum(map(len, batches))

    def gradient(loss: Tensor) -> Tensor:
        return _flat(torch.autograd.grad(loss, parameters, retain_graph=True), parameters)

    def pushed(push: Tensor) -> Tensor:
        return gradient(sum(part @ push for part in parts))

    h = sum(parts).detach()
    right = gradient(_chi2(sum(parts), target))
    yield "averaged", right / count
    yield "averaged", right / rows
    for scaled in ([target] * count, [target / count] * count, [target * len(x) / rows for x in batches]):
        each = [gradient(_chi2(part, goal)) for part, goal in zip(parts, scaled, strict=True)]
        yield "naive", sum(each)
        yield "naive", sum(each) / count
        yield "naive", sum(len(x) / rows * g for x, g in zip(batches, each, strict=True))
    yield "naive", gradient(_chi2(sum(parts) / count, target))
    for mean in (h / count, h / rows):
        yield "averaged", pushed(2 * (mean - target) / target)
        yield "averaged", pushed(2 * (mean - target) / target / count)
    over_h = 2 * (h - target) / h - ((h - target) / h).square()
    for push in ((h - target) / target, 2 * (h - target), h - target, -2 * (h - target) / target, over_h):
        yield "derivative", pushed(push)
    yield "derivative", pushed((h - target).square() / target)
    yield "no push", pushed(torch.ones_like(h))
    so_far = torch.zeros_like(h)
    running = []
    for part in parts:
        so_far = so_far + part.detach()
        running.append(gradient(part @ (2 * (so_far - target) / target)))
    yield "running", sum(running)
    yield "running", sum(running) / count
    whole = sum(parts)
    for goal in (target, target / target.sum()):
        yield "normalised", gradient(_chi2(whole / whole.sum(), goal))
        push = 2 * (h / h.sum() - goal) / goal
        yield "normalised", pushed(push)
    yield "last", gradient(parts[-1] @ (2 * (h - target) / target))
    yield "last", gradient(_chi2(parts[-1], target))


@histogram_gradient.claim("is the exact gradient of chi2 over all batches", weight=3, gate=True)
def _(trial: Trial) -> None:
    layers = [nn.Linear(3, 3), Turn(), nn.Tanh(), nn.Linear(3, 3), Turn().eval(), nn.Tanh(), nn.Linear(3, 2)]
    deep = nn.Sequential(*layers).double()
    deep[3].weight = deep[0].weight
    cases = (
        (_model(trial, outputs=trial.integer(1, 2)), (trial.integer(2, 4), trial.integer(7, 9), trial.integer(4, 6))),
        (trial.fill(deep), (trial.integer(3, 5), trial.integer(6, 8))),
        (_model(trial), (trial.integer(3, 6),)),
    )
    for model, sizes in cases:
        batches, target, bins = _measured(trial, model, sizes)
        parameters = list(model.parameters())
        h = sum(_histogram(model, x, bins) for x in batches)
        expected = [g.detach() for g in torch.autograd.grad(_chi2(h, target), parameters)]
        show = "model with a shared weight" if model is deep else "model"
        result = _asked(trial, model, batches, target, bins, show=show)
        got, right = _one_a_parameter(trial, result, model), _flat(expected, parameters)
        if _close(got, right):
            continue
        if _same_in_another_order(result, expected):
            raise Missed("order", expected="the order of model.parameters()", got="another order")
        for training in (False, True) if model is deep else ():
            other = copy.deepcopy(model).train(training)
            loss = _chi2(sum(_histogram(other, x, bins) for x in batches), target)
            if _close(got, _gradient(other, loss)):
                raise Missed("mode", expected="the modes that the model is in", got="the gradient in other modes")
        guesses = _histogram_guesses(model, batches, target, bins)
        key = next((key for key, wrong in guesses if _close(got, wrong)), "")
        raise Missed(key, **_compared(got, right) | {"expected": "the gradient of chi2 over all batches"})


def _same_in_another_order(result: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    left = list(expected)
    for tensor in result:
        found = next((i for i, t in enumerate(left) if t.shape == tensor.shape and _close(tensor.double(), t)), None)
        if found is None:
            return False
        del left[found]
    return True


@histogram_gradient.claim("leaves `.grad` alone, also where a batch raises", weight=1)
def _(trial: Trial) -> None:
    for unlucky in (False, True):
        model = _model(trial)
        batches, target, bins = _measured(trial, model, (4, 3, 5))
        parameters = list(model.parameters())
        for parameter in parameters[::2]:
            parameter.grad = trial.randn(*parameter.shape)
        before = [None if p.grad is None else p.grad.clone() for p in parameters]
        calls: list[int] = []

        def raises(module: nn.Module, inputs: tuple, calls: list[int] = calls) -> None:
            calls.append(1)
            # The second batch of whatever pass records.
            if torch.is_grad_enabled() and len(calls) > 4:
                raise Unlucky("this batch cannot be used")

        handle = model[0].register_forward_pre_hook(raises) if unlucky else None
        show = "model that raises" if unlucky else "model with some gradients"
        try:
            _asked(trial, model, batches, target, bins, show=show)
        except AnswerRaised as raised:
            if not isinstance(raised.error, Unlucky):
                raise
        finally:
            if handle is not None:
                handle.remove()
        for parameter, old in zip(parameters, before, strict=True):
            same = parameter.grad is old if old is None else parameter.grad is not None
            if not same or (old is not None and not torch.equal(parameter.grad, old)):
                key = "only without error" if unlucky else "grad filled"
                raise Missed(key, expected=".grad as before", got="another .grad")


@histogram_gradient.claim("keeps only one batch's activations alive at a time", weight=3)
def _(trial: Trial) -> None:
    peaks = {}
    for count in _BATCHES:
        model = _wide_model(trial)
        batches, target, bins = _measured(trial, model, [_ROWS] * count)
        one = _graph_bytes(model, batches[0], lambda output, bins=bins: soft_histogram(output, bins))
        forwards = _Forwards(model)
        tracker = forwards.tracker = MemoryTracker(model, batches, target, bins)
        _asked(trial, model, batches, target, bins, within=tracker)
        forwards.remove()
        if max(forwards.rows) > _ROWS:
            key = "joined" if max(forwards.recorded_rows, default=0) <= _ROWS else "all graphs"
            raise Missed(key, expected=f"batches of {_ROWS} samples", got=f"{max(forwards.rows)} samples at once")
        _expect_one_alive(forwards, one)
        peaks[count] = tracker.peak
    _expect_no_growth(peaks, "all graphs")


EXERCISES = (accumulate, accumulated_step, apply_gradients, histogram_gradient)

"""``train_ensemble``: the stacked parameters after steps of plain SGD, each model's as if it had been trained alone.

The check trains the models one by one, rightly and with each mistake, and counts forward passes.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from course_utils.base.text import message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Trial,
    exercise,
    expect,
    expect_no_history,
    first_sign,
    reading,
)
from course_utils.lessons.model_ensembling import _shared as shared
from course_utils.lessons.model_ensembling._named import Named, all_same, expect_dtype, expect_named, is_exactly, stack

train_ensemble = exercise(__file__)


def _summed(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="sum")


def _of_probabilities(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs.softmax(-1), targets)


def _is_multiple(these: Named, those: Named) -> bool:
    """Whether all these tensors are those, times one number above or below 0."""
    one, other = (torch.cat([side[name].detach().double().flatten() for name in those]) for side in (these, those))
    factor = one.dot(other) / other.dot(other)
    return bool(factor.abs() > 1e-6) and torch.allclose(one, factor * other, rtol=1e-4, atol=1e-9)


def _minus(these: Named, those: Named) -> Named:
    return {name: these[name].detach() - value for name, value in those.items()}


class _Lowered(TorchFunctionMode):
    """Sees whether the flag of a tensor is lowered on that tensor itself."""

    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        flagged = [one for one in args[:1] if isinstance(one, Tensor) and one.requires_grad]
        result = func(*args, **(kwargs or {}))
        self.seen = self.seen or any(not one.requires_grad for one in flagged)
        return result


class _Training:
    """An ensemble and what it is to learn; the answer is called on them."""

    def __init__(
        self, trial: Trial, steps: int, batch: int = 0, architecture: Callable = shared.plain, count: int = 0
    ) -> None:
        columns, count, classes = trial.integer(2, 4), count or trial.integer(3, 5), trial.integer(2, 3)
        self.ensemble, self.steps = shared.Ensemble(trial, count, architecture(columns, classes)), steps
        batch = count if batch < 0 else batch or shared.other_integer(trial, 6, 9)
        self.x, self.y = trial.randn(batch, columns), shared.labels(trial, batch, classes)
        self.lr = trial.integer(21, 79) / 100

    def call(self, what: str = "models") -> Any:
        return self.ensemble.call_with_models(self.x, self.y, self.lr, self.steps, what=what)

    def alone(
        self,
        models: Sequence[nn.Module] = (),
        *,
        data: Sequence[tuple[Tensor, Tensor]] = (),
        steps: int | None = None,
        scale: float = 1.0,
        momentum: float = 0.0,
        dampening: float = 0.0,
        loss_fn: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    ) -> Named:
        """Every model trained alone, on copies; their parameters, stacked. ``scale`` is for the learning rate."""
        trained = []
        models = [copy.deepcopy(model) for model in models or self.ensemble.models]
        for model, (x, y) in zip(models, data or [(self.x, self.y)] * len(models), strict=True):
            named = dict(model.named_parameters())
            velocity = [torch.zeros_like(parameter) for parameter in named.values()]
            for _ in range(self.steps if steps is None else steps):
                gradients = torch.autograd.grad(loss_fn(model(x), y), list(named.values()))
                for parameter, gradient, speed in zip(named.values(), gradients, velocity, strict=True):
                    speed.mul_(momentum).add_(gradient, alpha=1 - dampening)
                    parameter.detach().sub_(scale * self.lr * speed)
            trained.append({name: parameter.detach() for name, parameter in named.items()})
        return stack(trained)

    def jointly(self, factor: float) -> Named:
        """One step down the loss of the models' mean outputs."""
        models = copy.deepcopy(self.ensemble.models)
        loss = factor * F.cross_entropy(torch.stack([model(self.x) for model in models]).mean(0), self.y)
        loss.backward()
        return stack([{k: p.detach() - self.lr * p.grad for k, p in model.named_parameters()} for model in models])

    def wrongly(self) -> Iterator[tuple[str, Named]]:
        """What training with each mistake gives."""
        models, steps = self.ensemble.models, self.steps
        count, alone = len(models), self.alone
        yield "one model", alone([models[0]] * count)
        yield "never moved", alone(steps=0)
        yield from (("miscounted" if steps else "zero steps", alone(steps=steps + more)) for more in (-1, 1))
        yield "mean over models", alone(scale=1 / count)
        yield from (("sum over rows", alone(scale=scale, loss_fn=_summed)) for scale in (1, 1 / count))
        yield "uphill", alone(scale=-1)
        yield "softmax", alone(loss_fn=_of_probabilities)
        yield from (("accumulated", alone(scale=scale, momentum=1.0)) for scale in (1, 1 / count))
        yield from (("optimizer", alone(momentum=0.9, dampening=dampening)) for dampening in (0, 0.9))
        if steps > 1:
            yield from (("same start", alone(scale=scale, steps=1)) for scale in (steps, 1))
        if steps == 1:
            yield from (("joint", self.jointly(factor)) for factor in (1.0, count))

    def with_labels_misplaced(self) -> Iterator[Named]:
        """What training gives where outputs of all models stand in one list, and the labels in another order."""
        count, rows, x, y = len(self.ensemble.models), len(self.x), self.x, self.y
        each = y.repeat_interleave(count).reshape(count, rows)  # for outputs model by model
        whole = y.repeat(count).reshape(rows, count).T  # for outputs sample by sample
        for targets in (each, whole):
            data = [(x, one) for one in targets]
            yield from (self.alone(data=data, scale=scale) for scale in (1, 1 / count))
            yield self.alone(data=data, loss_fn=_summed)

    def otherwise(self) -> Iterator[tuple[str, Named]]:
        """Mistakes that are looked for last."""
        models, count, (x, y), alone = self.ensemble.models, len(self.ensemble.models), (self.x, self.y), self.alone
        if len(x) == count:
            yield "guessed", alone(data=[(x[i : i + 1], y[i : i + 1]) for i in range(count)])
        if any(True for _ in models[0].buffers()):
            yield "buffers", alone(self.ensemble.with_state_of_first(parameters=False, buffers=True))
            yield "train mode", alone([copy.deepcopy(model).train() for model in models])
        yield from (("label order", wrong) for wrong in self.with_labels_misplaced())
        yield from (("one row", alone(data=[(x[i : i + 1], y[i : i + 1])] * count)) for i in range(len(x)))

    def key(self, got: Named) -> str:
        """The misconception behind wrong parameters, found by training with it."""
        start = self.alone(steps=0)
        if len(self.ensemble.models) == 1:
            return "squeezed" if all(shared.is_squeezed(got[k], v) for k, v in self.alone().items()) else ""
        if any(value.shape == start[name].shape[1:] for name, value in got.items()):
            return "one set"
        if any(value.shape != start[name].shape for name, value in got.items()):
            return ""
        if key := reading(got, self.wrongly(), all_same):
            return key
        if self.steps == 1:
            taken, right = _minus(got, start), self.alone()
            # Adam's first step moves every parameter by lr, whatever its gradient.
            moved = torch.cat([value.abs().flatten() for value in taken.values()])
            if (moved.double() - self.lr).abs().median() < 0.01 * self.lr:
                return "optimizer"
            if _is_multiple(_minus(got, right), start):
                return "optimizer"  # weight decay
            if _is_multiple(taken, _minus(right, start)):
                return "factor"
        return reading(got, self.otherwise(), all_same)

    def expect(self, what: str = "models", scaled: bool = True) -> Named:
        """Calls the answer: each model is where it would be alone; or, where ``scaled`` may pass, where it would be if
        the loss were summed over rows, or its mean taken over models, which is a factor in every step."""
        result, rows, share = self.call(what), len(self.x), 1 / len(self.ensemble.models)
        factors = (share, rows, rows * share) if scaled else ()
        if not any(is_exactly(result, self.alone(scale=factor)) for factor in factors):
            expect_named(result, self.alone(), self.key, "another result")
        return result


@train_ensemble.claim("takes one step in the direction of each model's own gradient", weight=0, gate=True)
def _(trial: Trial) -> None:
    _Training(trial, steps=1).expect()


@train_ensemble.claim("gets through a second step", weight=0, gate=True)
def _(trial: Trial) -> None:
    lowered = _Lowered()
    try:
        with lowered:
            _Training(trial, steps=2).call()
    except AnswerRaised as raised:
        error = message_of(raised.error, 160)
        # The first step was right, so its parameters had their flags. Have others come, or were theirs taken away?
        same_ones = lowered.seen or any("grad mode" in effect for effect in trial.effects)
        key = first_sign(
            ("unrecorded", "does not require grad" in error and not same_ones),
            ("rebinding", "unsupported operand" in error and "NoneType" in error),
        )
        if not key:
            raise
        where = {"in": raised.where} if raised.where else {}
        raise Missed(key, expected="two steps", raised=error, **where) from raised


@train_ensemble.claim("runs the models together in each step, not in a loop", weight=0, gate=True)
def _(trial: Trial) -> None:
    case = _Training(trial, trial.integer(2, 4), batch=6)
    case.call()
    steps, passed = case.steps, case.ensemble.passed
    expect(passed >= steps, "same start", expected=f"forward passes for {steps} steps: {steps}", got=f"{passed}")
    case.ensemble.expect_no_loop(steps)


@train_ensemble.claim("makes one step of each model as long as it would be alone", weight=6)
def _(trial: Trial) -> None:
    _Training(trial, steps=1).expect(scaled=False)


@train_ensemble.claim("runs the architecture's forward once per step", weight=6)
def _(trial: Trial) -> None:
    case = _Training(trial, trial.integer(2, 4), batch=6, count=trial.integer(*shared.MANY))
    case.call()
    case.ensemble.expect_passes(len(case.ensemble.models) * len(case.x), case.steps)


@train_ensemble.claim(
    "after several steps, has each model where it would be alone, the length of a step aside", weight=3
)
def _(trial: Trial) -> None:
    _Training(trial, trial.integer(3, 5)).expect()


@train_ensemble.claim("after 0 steps, gives the stacked parameters as they are", weight=1)
def _(trial: Trial) -> None:
    try:
        _Training(trial, steps=0).expect()
    except AnswerRaised as raised:
        error = message_of(raised.error, 160)
        raise Missed("zero steps", expected="the stacked parameters", raised=error) from raised


@train_ensemble.claim("gives detached tensors, in the dtype of the parameters", weight=1)
def _(trial: Trial) -> None:
    for steps in (1, 0):  # several have a claim of their own
        for name, value in _Training(trial, steps).expect().items():
            if value.grad_fn is None:
                flagged = f"requires_grad {value.requires_grad}"
                expect(not value.requires_grad, "leaves", expected=f"requires_grad False for {name}", got=flagged)
            expect_no_history(value, "history", what=f"no history for {name}")
    for dtype in (torch.float32, torch.bfloat16):
        case = _Training(trial, 2)
        for model in case.ensemble.models:
            model.to(dtype)
        case.x = case.x.to(dtype)
        expect_dtype(case.call(), case.alone(steps=0))


@train_ensemble.claim(
    "is right where there are as many models as rows, and for one model, the length of a step aside", weight=1
)
def _(trial: Trial) -> None:
    _Training(trial, steps=2, batch=-1).expect()
    _Training(trial, steps=2, count=1).expect()


@train_ensemble.claim("takes inputs of more dimensions, the length of a step aside", weight=0.5)
def _(trial: Trial) -> None:
    case = _Training(trial, steps=2, architecture=lambda columns, classes: shared.for_images(classes))
    case.x = trial.randn(len(case.x), 2, 4, 4)
    with case.ensemble.given_images():
        case.expect("conv nets")


@train_ensemble.claim(
    "is right for batch norm in eval mode, each model with its own statistics, the length of a step aside", weight=1.5
)
def _(trial: Trial) -> None:
    case = _Training(trial, steps=2, architecture=shared.normed)
    case.expect("models with batch norm in eval mode")
    case.ensemble.expect_no_loop(case.steps)

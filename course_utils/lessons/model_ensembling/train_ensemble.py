"""``train_ensemble``: what it claims."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.base.text import describe
from course_utils.checks.claims import same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.model_ensembling._shared import (
    _apart,
    _copies,
    _expect_named,
    _expect_passes,
    _labels,
    _models,
    _normed,
    _plain,
    _Tally,
    _with_state_of_first,
)

train_ensemble = exercise(__file__)

_Loss = Callable[[Tensor, Tensor], Tensor]


def _alone(
    models: Sequence[nn.Module],
    data: Sequence[tuple[Tensor, Tensor]],
    lr: float,
    steps: int,
    *,
    momentum: float = 0.0,
    dampening: float = 0.0,
    loss_fn: _Loss = F.cross_entropy,
) -> dict[str, Tensor]:
    """Every model trained alone, on copies; their parameters, stacked."""
    trained = []
    for model, (x, y) in zip(models, data, strict=True):
        mine = copy.deepcopy(model)
        names, parameters = zip(*mine.named_parameters(), strict=True)
        velocity = [torch.zeros_like(parameter) for parameter in parameters]
        for _ in range(steps):
            gradients = torch.autograd.grad(loss_fn(mine(x), y), parameters)
            with torch.no_grad():
                for parameter, gradient, speed in zip(parameters, gradients, velocity, strict=True):
                    speed.mul_(momentum).add_(gradient, alpha=1 - dampening)
                    parameter.sub_(lr * speed)
        trained.append({name: parameter.detach() for name, parameter in zip(names, parameters, strict=True)})
    return {name: torch.stack([row[name] for row in trained]) for name in trained[0]}


def _all_same(got: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> bool:
    return all(name in got and same(got[name], value) for name, value in expected.items())


def _is_multiple(these: Mapping[str, Tensor], those: Mapping[str, Tensor]) -> bool:
    """Whether all these tensors are those, times one number above or below 0."""
    if any(tensor.shape != those[name].shape for name, tensor in these.items()):
        return False
    one = torch.cat([tensor.detach().double().flatten() for tensor in these.values()])
    other = torch.cat([those[name].double().flatten() for name in these])
    factor = one.dot(other) / other.dot(other)
    return bool(factor.abs() > 1e-6) and torch.allclose(one, factor * other, rtol=1e-4, atol=1e-9)


def _joint_step(models: Sequence[nn.Module], x: Tensor, y: Tensor, lr: float, factor: float) -> dict[str, Tensor]:
    """One step down the loss of the models' mean outputs."""
    copies = [copy.deepcopy(model) for model in models]
    names = [name for name, _ in copies[0].named_parameters()]
    loss = factor * F.cross_entropy(torch.stack([model(x) for model in copies]).mean(0), y)
    gradients = iter(torch.autograd.grad(loss, [p for model in copies for p in model.parameters()]))
    rows = [[p.detach() - lr * next(gradients) for p in model.parameters()] for model in copies]
    return {name: torch.stack(columns) for name, columns in zip(names, zip(*rows, strict=True), strict=True)}


def _training_key(
    models: Sequence[nn.Module], x: Tensor, y: Tensor, lr: float, steps: int, tally: _Tally
) -> Callable[[dict[str, Tensor]], str]:
    """Finds the misconception behind wrong parameters by training with it."""

    def summed(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="sum")

    def of_probabilities(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.softmax(-1), targets)

    def key(got: dict[str, Tensor]) -> str:
        before, count, data = tally.passes, len(models), [(x, y)] * len(models)
        start, right = _alone(models, data, lr, 0), _alone(models, data, lr, steps)
        try:
            if any(value.shape == start[name].shape[1:] for name, value in got.items()):
                return "one set"
            if _all_same(got, _alone([models[0]] * count, data, lr, steps)) and count > 1:
                return "one model"
            if _all_same(got, start):
                return "never moved"
            for more in (-1, 1):
                if _all_same(got, _alone(models, data, lr, steps + more)):
                    return "zero steps"
            attempts: list[tuple[str, dict[str, Any]]] = [
                ("mean over models", {"lr": lr / count}),
                ("sum over rows", {"lr": lr, "loss_fn": summed}),
                ("sum over rows", {"lr": lr / count, "loss_fn": summed}),
                ("uphill", {"lr": -lr}),
                ("softmax", {"lr": lr, "loss_fn": of_probabilities}),
                ("accumulated", {"lr": lr, "momentum": 1.0}),
                ("accumulated", {"lr": lr / count, "momentum": 1.0}),
                ("optimizer", {"lr": lr, "momentum": 0.9}),
                ("optimizer", {"lr": lr, "momentum": 0.9, "dampening": 0.9}),
            ]
            for name, options in attempts:
                if _all_same(got, _alone(models, data, options.pop("lr"), steps, **options)):
                    return name
            if steps > 1 and _all_same(got, _alone(models, data, lr * steps, 1)):
                return "same start"
            if steps > 1 and _all_same(got, _alone(models, data, lr, 1)):
                return "same start"
            if steps == 1 and any(_all_same(got, _joint_step(models, x, y, lr, f)) for f in (1.0, float(count))):
                return "joint"
            # Adam's first step moves every parameter by lr, whatever its gradient.
            moved = torch.cat([(got[name].detach() - value).abs().flatten() for name, value in start.items()])
            if steps == 1 and (moved.double() - lr).abs().median() < 0.01 * lr:
                return "optimizer"
            if steps == 1 and _is_multiple({name: got[name] - value for name, value in right.items()}, start):
                return "optimizer"  # weight decay
            taken = {name: got[name] - value for name, value in start.items()}
            if steps == 1 and _is_multiple(taken, {name: value - start[name] for name, value in right.items()}):
                return "factor"
            rows = [(x[i : i + 1], y[i : i + 1]) for i in range(min(count, len(x)))]
            if len(x) == count and _all_same(got, _alone(models, rows, lr, steps)):
                return "in_dims"
            frozen_state = _with_state_of_first(models, parameters=False, buffers=True)
            if any(True for _ in models[0].buffers()):
                if _all_same(got, _alone(frozen_state, data, lr, steps)):
                    return "buffers"
                if _all_same(got, _alone([copy.deepcopy(model).train() for model in models], data, lr, steps)):
                    return "train mode"
            return ""
        finally:
            tally.passes = before

    return key


def _train(trial: Trial, models: Sequence[nn.Module], x: Tensor, y: Tensor, lr: float, steps: int, what: str) -> Any:
    show = f"train_ensemble({len(models)} {what}, x {describe(x)}, y {describe(y)}, lr={lr}, steps={steps})"
    return trial.call(_copies(models), x, y, lr, steps, show=show)


def _expect_trained(
    trial: Trial,
    make: Callable[[int, int], Callable[[_Tally], nn.Sequential]],
    *,
    steps: int,
    batch: int = 0,
    what: str = "models",
) -> tuple[dict[str, Tensor], _Tally]:
    """Trains models of that kind by the answer and alone; the result, and how many passes the answer ran."""
    columns, count = trial.integer(2, 4), trial.integer(3, 5)
    models, tally = _models(trial, count, make(columns, trial.integer(2, 3)))
    classes = models[0][-1].out_features
    batch = batch or _apart(trial, 6, 9)
    batch = count if batch < 0 else batch
    x, y = trial.randn(batch, columns), _labels(trial, batch, classes)
    lr = trial.integer(21, 79) / 100
    expected = _alone(models, [(x, y)] * count, lr, steps)
    tally.passes = 0
    result = _train(trial, models, x, y, lr, steps, what)
    if isinstance(result, Mapping) and set(result) > set(expected):
        raise Missed("with buffers", expected="names " + ", ".join(expected), got=describe(list(result), 120))
    got = _expect_named(result, expected, _training_key(models, x, y, lr, steps, tally))
    return got, tally


@train_ensemble.claim("after one step, has each model where it would be alone", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_trained(trial, _plain, steps=1)


@train_ensemble.claim("runs the architecture's forward once a step", weight=2, gate=True)
def _(trial: Trial) -> None:
    steps, columns, count = trial.integer(2, 4), trial.integer(2, 4), trial.integer(3, 5)
    models, tally = _models(trial, count, _plain(columns, 3))
    x, y = trial.randn(6, columns), _labels(trial, 6, 3)
    _train(trial, models, x, y, trial.integer(21, 79) / 100, steps, "models")
    if tally.passes != steps:
        key = "same start" if tally.passes < steps else "loop" if tally.passes > steps + 1 else ""
        raise Missed(key, expected=f"forward passes for {steps} steps: {steps}", got=f"{tally.passes}")


@train_ensemble.claim("after several steps, has each model where it would be alone", weight=2)
def _(trial: Trial) -> None:
    _expect_trained(trial, _plain, steps=trial.integer(3, 5))


@train_ensemble.claim("after 0 steps, gives the stacked parameters as they are", weight=1)
def _(trial: Trial) -> None:
    try:
        _expect_trained(trial, _plain, steps=0)
    except AnswerRaised as raised:
        error = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0]
        raise Missed("zero steps", expected="the stacked parameters", raised=error[:160]) from raised


@train_ensemble.claim("gives detached tensors", weight=1)
def _(trial: Trial) -> None:
    for steps in (2, 0):
        got, _tally = _expect_trained(trial, _plain, steps=steps)
        for name, value in got.items():
            if value.grad_fn is not None:
                told = f"grad_fn {value.grad_fn.name()} for {name}"
                raise Missed("history", expected="no history", got=told)
            if value.requires_grad:
                raise Missed("history", expected="requires_grad False", got=f"requires_grad True for {name}")


@train_ensemble.claim("is right where there are as many models as rows", weight=1)
def _(trial: Trial) -> None:
    _expect_trained(trial, _plain, steps=2, batch=-1)


@train_ensemble.claim("is right for models with batch norm in eval mode, each with its own statistics", weight=2)
def _(trial: Trial) -> None:
    steps = trial.integer(1, 2)
    _, tally = _expect_trained(trial, _normed, steps=steps, what="models with batch norm in eval mode")
    _expect_passes(tally, steps, "loop")

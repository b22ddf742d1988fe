"""``capture`` keeps outputs of named submodules."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from course_utils.checks.compare import Missed, ModeRoll, Seen, Trial, compared, hook_count, outcome

capture = compared(__file__, contextmanager=contextmanager)


def _model(trial: Trial, inplace: bool = False) -> nn.Sequential:
    encoder = nn.Sequential(nn.Linear(3, 6), nn.ReLU(inplace=inplace), nn.Linear(6, 4))
    parts = OrderedDict(encoder=encoder, act=nn.Tanh(), roll=ModeRoll(), head=nn.Linear(4, 2))
    return trial.fill(nn.Sequential(parts).double())


def _within(
    trial: Trial,
    model: nn.Module,
    names: list[str],
    body: Callable[[], Any],
    show: str = "model(x)",
    watch: bool = True,
) -> tuple[Any, Any]:
    """What stands in the answer's dict at the end of a block in which ``body`` runs, and the dict after it."""

    def drive() -> Any:
        inside: Any = "the block did not come to its end"
        with trial.answer(model, list(names)) as features:
            body()
            inside = dict(features) if isinstance(features, Mapping) else features
        return inside, features

    return trial.run(drive, called=f"with capture(model, {names}): {show}", watch={"model": model} if watch else {})


def _named(entries: Any, names: list[str]) -> dict[str, Any]:
    if not isinstance(entries, Mapping):
        raise Missed("no context", expected="a dict of tensors by name", got=type(entries).__name__)
    return {name: entries.get(name, "no entry") for name in names}


@capture.looks("gives a dict with each named submodule's newest output, in the block and after it", gate=True)
def _(trial: Trial) -> Seen:
    names = ["encoder.0", "act", "head"]
    model, x = _model(trial).eval(), trial.randn(4, 3)
    inside, after = _within(trial, model, names, lambda: model(x))
    yield "in the block", _named(inside, names)
    yield "after the block", _named(after, names)
    _, after = _within(trial, model, names, lambda: (model(x), model(2 * x)), "model(x), model(2 * x)")
    yield "the newest output", _named(after, names)


@capture.looks("leaves the model to compute and record as without it", "replaced")
def _(trial: Trial) -> Seen:
    model, x, seen = _model(trial), trial.randn(4, 3), {}

    def body() -> None:
        y = model(x)
        seen.update({"output": y.detach(), "recorded": y.requires_grad})
        parameters = list(model.parameters())
        seen["gradients"] = torch.autograd.grad(y.sum(), parameters, allow_unused=True) if y.requires_grad else ()

    _within(trial, model, ["encoder", "act"], body, "model(x), and backward")
    return seen


@capture.looks("holds tensors without history", "graph", weight=2)
def _(trial: Trial) -> Seen:
    model, x, names = _model(trial), trial.randn(4, 3), ["encoder", "head"]
    _, entries = _within(trial, model, names, lambda: model(x))
    return {"requires grad": {name: entry.requires_grad for name, entry in _named(entries, names).items()}}


@capture.looks("is not touched by later in-place edits of the output", "graph", weight=2)
def _(trial: Trial) -> Seen:
    names = ["encoder.0", "head"]
    for mode in (torch.enable_grad(), torch.no_grad()):
        model, x, outputs = _model(trial, inplace=True), trial.randn(6, 3), []
        show = f"y = model(x) under {type(mode).__name__}, with ReLU(inplace=True); y.detach().zero_()"
        with mode:
            _, entries = _within(trial, model, names, lambda: outputs.append(model(x)), show)
        outputs[0].detach().zero_()
        yield f"kept under {type(mode).__name__}", _named(entries, names)


@capture.looks("takes its hooks away at the end, also after an exception, which goes through", weight=3)
def _(trial: Trial) -> Seen:
    names, x = ["encoder.0", "act"], trial.randn(4, 3)
    for what, body in (("model(x)", lambda model: model(x)), ("the block raises", lambda model: model(x).nowhere)):
        model = _model(trial)
        ended = outcome(lambda: _within(trial, model, names, lambda: body(model), what, watch=False))
        yield f"hooks left, {what}", hook_count(model)
    yield "the exception, as the caller sees it", ended


@capture.looks("raises KeyError for an unknown name, and leaves no hook behind", "no error")
def _(trial: Trial) -> Seen:
    model, x, names = _model(trial), trial.randn(2, 3), ["encoder.0", "nowhere"]
    yield "for an unknown name", outcome(lambda: _within(trial, model, names, lambda: model(x), watch=False) and None)
    yield "hooks left", hook_count(model)

"""``activation_bytes``: what it claims."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Unlucky
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.forward_hooks._shared import _expect_error, _expect_hooks, _layers, _Raises, _texts

activation_bytes = exercise(__file__)


def _sizes(trial: Trial, model: nn.Module, x: Tensor, show: str = "") -> dict[str, int]:
    got = trial.call(model, x, watch_training=False, show=f"activation_bytes({show or 'model, x'})")
    if got is None:
        raise Missed("no return value", expected="a dict of bytes by name", got="None")
    if not isinstance(got, Mapping):
        raise Missed(expected="a dict of bytes by name", got=got)
    try:
        return {name: operator.index(nbytes) for name, nbytes in got.items()}
    except TypeError:
        raise Missed(expected="whole numbers of bytes (int)", got=got) from None


def _expect_sizes(got: dict[str, int], wanted: dict[str, int], readings: Iterable[tuple[str, dict[str, int]]]) -> None:
    if got == wanted:
        return
    reading = next((key for key, value in readings if got == value), "")
    names = [name for name in (*wanted, *got) if wanted.get(name) != got.get(name)]
    name = names[0]
    expected = f"{name!r}: {format_bytes(wanted[name])}" if name in wanted else f"no entry {name!r}"
    shown = f"{format_bytes(got[name])} ({got[name]})" if name in got else "no such entry"
    raise Missed(reading, expected=expected, got=shown)


@activation_bytes.claim("gives the bytes of every leaf module's output by dotted name", weight=0, gate=True)
def _(trial: Trial) -> None:
    n, width, out = trial.integer(2, 9), trial.integer(4, 9), trial.integer(2, 3)
    block = nn.Sequential(nn.Linear(3, width), nn.Sequential(nn.Tanh(), nn.Linear(width, 10)))
    model = trial.fill(nn.Sequential(OrderedDict(body=block, head=nn.Linear(10, out))).double())
    elements = {"body.0": n * width, "body.1.0": n * width, "body.1.1": n * 10, "head": n * out}
    wanted = {name: 8 * count for name, count in elements.items()}
    got = _sizes(trial, model, trial.randn(n, 3), "model of nested Sequentials, x")
    containers = {"body.1": 80 * n, "body": 80 * n, "": 8 * n * out}
    if set(got) - set(wanted) and set(got) - set(wanted) <= set(containers):
        key = "children" if not set(wanted) <= set(got) else "containers"
        raise Missed(key, expected=f"entries: {_texts(wanted)}", got=_texts(got))
    before = {"body.0": 24 * n, "body.1.0": 8 * n * width, "body.1.1": 8 * n * width, "head": 80 * n}
    linears = {name: nbytes for name, nbytes in wanted.items() if name != "body.1.0"}
    if set(got) & {"Linear", "Tanh"}:
        raise Missed("class names", expected=f"entries: {_texts(wanted)}", got=_texts(got))
    readings = (
        ("weightless", linears),
        ("inputs", before),
        ("one name", {"head": wanted["head"]}),
        ("one name", {"head": sum(wanted.values())}),
        ("children", {"head": wanted["head"], "body": 80 * n}),
        ("elements", elements),
        ("four bytes", {name: 4 * count for name, count in elements.items()}),
    )
    if set(got) != set(wanted):
        key = next((key for key, value in readings if got == value), "")
        raise Missed(key, expected=f"entries: {_texts(wanted)}", got=_texts(got))
    _expect_sizes(got, wanted, readings)


class _Parts(nn.Module):
    """A leaf that returns a tuple in a tuple in a tuple, of several dtypes."""

    def forward(self, x: Tensor) -> tuple:
        return x.half(), (x > 0, (x.float(), x.argmax(1)))


class _Column(nn.Module):
    """A leaf whose output is a view of one column, spread over ``width`` columns."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1].expand(-1, self.width)


class _Branches(nn.Module):
    """Feeds one input to its children, one after the other, and hands on what the last of them returns."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x: Tensor) -> Any:
        return [child(x) for child in self.children()][-1]


@activation_bytes.claim("sums over nested tuples, by the elements and dtype of each tensor")
def _(trial: Trial) -> None:
    n, width, hidden = trial.integer(2, 9), trial.integer(3, 6), trial.integer(2, 5)
    model = trial.fill(
        _Branches(lstm=nn.LSTM(width, hidden).double(), parts=_Parts(), column=_Column(width + 2)).double()
    )
    wanted = {
        "lstm": 8 * (n * hidden + 2 * hidden),
        "parts": 2 * n * width + n * width + 4 * n * width + 8 * n,
        "column": 8 * n * (width + 2),
    }
    got = _sizes(trial, model, trial.randn(n, width), "model with an LSTM and a nested tuple, x")
    first = {"lstm": 8 * n * hidden, "parts": 2 * n * width}
    flat = {"lstm": 8 * n * hidden, "parts": 3 * n * width}
    shallow = {"lstm": wanted["lstm"], "parts": 3 * n * width}
    storage = wanted | {"column": 8 * n * width}
    counts = {"lstm": wanted["lstm"] // 8, "parts": n * (3 * width + 1), "column": wanted["column"] // 8}
    eights = {name: 8 * count for name, count in counts.items()}
    readings = [("tuples", part | {"column": wanted["column"]}) for part in (first, flat, shallow)]
    readings += [("tuples", {"column": wanted["column"]}), ("storage", storage)]
    readings += [("elements", counts), ("four bytes", eights)]
    if got.get("lstm") != wanted["lstm"] or got.get("parts") in (first["parts"], flat["parts"], None):
        readings = [*readings, ("tuples", got)]
    elif got.get("column") != wanted["column"]:
        readings = [*readings, ("storage", got)]
    _expect_sizes(got, wanted, readings)


class _Loop(nn.Module):
    """Calls ``cell`` and ``act`` several times, and ``spare`` never."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.start, self.spare = nn.Linear(3, 4), nn.Linear(3, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.unused = nn.ModuleList([nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        for number in range(self.rounds):
            x = self.inner(x[number:])
        return x


@activation_bytes.claim("sums over the calls of a module, and leaves out what did not run")
def _(trial: Trial) -> None:
    n, rounds = trial.integer(6, 9), trial.integer(2, 3)
    model = trial.fill(_Loop(rounds).double())
    rows = [n - sum(range(number + 1)) for number in range(rounds)]
    wanted = {"start": 32 * n, "inner.0": 32 * sum(rows), "inner.1": 32 * sum(rows)}
    got = _sizes(trial, model, trial.randn(n, 3), "model that calls two layers several times, x")
    zeros = {"spare": 0, "unused.0": 0}
    if wanted | zeros == got:
        raise Missed("not run", expected="no entries 'spare' and 'unused.0'", got="entries of 0")
    last = wanted | dict.fromkeys(("inner.0", "inner.1"), 32 * rows[-1])
    first = wanted | dict.fromkeys(("inner.0", "inner.1"), 32 * rows[0])
    readings = [("overwritten", part | more) for part in (last, first) for more in ({}, zeros)]
    _expect_sizes(got, wanted, readings)


def _noting(trial: Trial) -> tuple[nn.Sequential, list[bool]]:
    model, recorded = _layers(trial), []
    for name in ("encoder.0", "head"):
        layer = model.get_submodule(name)
        layer.register_forward_hook(lambda _module, _args, output: recorded.append(output.requires_grad))
    return model, recorded


@activation_bytes.claim("records nothing")
def _(trial: Trial) -> None:
    for flagged, frozen in ((False, False), (True, False), (True, True)):
        model, recorded = _noting(trial)
        model.requires_grad_(not frozen)
        _sizes(trial, model, trial.randn(4, 3, requires_grad=flagged), f"model, {'flagged ' * flagged}x")
        if any(recorded):
            raise Missed("recorded", expected="no graph while the model runs", got="the layers' outputs require grad")
        if any("requires_grad" in effect for effect in trial.effects):
            raise Missed("frozen", expected="the parameters' flags as before", got="other flags")


@activation_bytes.claim("leaves no hooks of its own, also when the forward pass raises, and lets the error through")
def _(trial: Trial) -> None:
    model = _layers(trial)
    _sizes(trial, model, trial.randn(4, 3))
    _expect_hooks(model, 0, "left on")
    for kind, given in ((RuntimeError, trial.randn(4, 2)), (Unlucky, trial.randn(4, 3))):
        model = _layers(trial)
        if kind is Unlucky:
            model.append(_Raises())
        _expect_error(
            kind, lambda model=model, given=given: _sizes(trial, model, given, "model, x that raises"), "model"
        )
        _expect_hooks(model, 0, "only without error")
        if not torch.is_grad_enabled() or any("grad mode" in effect for effect in trial.effects):
            raise Missed("only without error", expected="the grad mode as before", got="switched off")


@activation_bytes.claim("leaves the training flags and the hooks of others as they were")
def _(trial: Trial) -> None:
    for training, other in ((True, "act"), (False, "encoder.1")):
        model, seen = _layers(trial).train(training), []
        model.get_submodule(other).training = not training
        flags = [module.training for module in model.modules()]
        model.head.register_forward_hook(lambda *_, seen=seen: seen.append(1))
        model.encoder[0].register_forward_pre_hook(lambda *_, seen=seen: seen.append(1))
        _sizes(trial, model, trial.randn(4, 3), f"model in {'training' if training else 'eval'} mode, x")
        if [module.training for module in model.modules()] != flags:
            raise Missed("flags", expected="every submodule's own training flag", got="other flags")
        seen.clear()
        model(trial.randn(4, 3))
        if len(seen) != 2:
            raise Missed("cleared others", expected="2 hooks of others called", got=f"{len(seen)}")

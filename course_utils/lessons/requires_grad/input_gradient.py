"""``input_gradient``: a gradient by a model's input. The check compares it with the engine's and looks for traces."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Calls,
    Missed,
    ModeRoll,
    Raises,
    Trial,
    Unlucky,
    exercise,
    expect,
    expect_no_history,
    expect_raises,
    expect_same,
    same,
    training_flags,
)

input_gradient = exercise(__file__)

# Wide enough for central differences in float64, and for another order of sums in float32.
_close = partial(same, rtol=1e-4)


def _network(trial: Trial, width: int, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Some parameters frozen, some with a gradient from before, some with none."""
    hidden = trial.integer(3, 5)
    first, middle, last = nn.Linear(width, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 3)
    model = trial.fill(nn.Sequential(first, nn.Tanh(), ModeRoll(), middle, nn.Tanh(), last).to(dtype))
    model[0].weight.grad = trial.randn(*model[0].weight.shape, dtype=dtype)
    model[5].bias.grad = trial.randn(3, dtype=dtype)
    model[3].bias.requires_grad_(False)
    return model


def _true_gradient(model: nn.Module, x: Tensor) -> Tensor:
    inner = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(inner).sum(), inner)[0]


def _shapes(trial: Trial) -> tuple[tuple[int, ...], ...]:
    width = trial.integer(16, 19)  # so many derivatives have both signs, those of one output, too
    return (trial.integer(2, 5), width), (width,), (2, trial.integer(2, 3), width)


def _one_case(trial: Trial) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A network in eval mode, a plain and a flagged input of one of the shapes, for claims in which shape and mode have
    no part."""
    shape = _shapes(trial)[trial.integer(0, 2)]
    return _network(trial, shape[-1]).eval(), trial.randn(*shape), trial.randn(*shape, requires_grad=True)


@contextmanager
def _callers_no_grad() -> Iterator[None]:
    """``no_grad`` as the caller's own mode: it must still be off when the answer has returned."""
    with torch.no_grad():
        try:
            yield
        finally:
            off = not torch.is_grad_enabled()
            expect(off, "mode left", expected="grad mode still off after the call", got="grad mode on")


def _call(trial: Trial, model: nn.Module, x: Tensor, show: str = "", within: Any = None) -> Any:
    """Calls the answer. Its arguments are reported as ``model`` and ``x``, whatever it calls them."""
    given = f"{'flagged ' * x.requires_grad}x of shape {tuple(x.shape)}"
    called, watch = show or f"input_gradient(model, {given})", {"x": x, "model": model}
    modes = training_flags(model)
    try:
        result = trial.run(lambda: trial.answer(model, x), called=called, watch=watch, within=within)
    except AnswerRaised as raised:
        if isinstance(raised.error, Missed):  # of ``within``
            raise raised.error from None
        if "flags of leaf variables" in str(raised.error) and _lowers_flag(trial, model, x):
            raise Missed("x changed", expected="x as it was", raised=message_of(raised.error, 60)) from None
        raise
    finally:  # a mode left behind must not make the next call a wrong one
        for module, mode in zip(model.modules(), modes, strict=True):
            module.training = mode
    # None for a flagged leaf alone comes from a clone of it: the clone is a result, whose ``.grad`` stays None.
    filled = result is not None or (x.is_leaf and not (x.requires_grad and _gives_tensor(trial, model, x.detach())))
    expect(filled, "non-leaf", expected=f"a gradient of shape {tuple(x.shape)}", got="None")
    in_tuple = isinstance(result, tuple) and any(isinstance(one, Tensor) for one in result)
    expect(not in_tuple, "tuple", expected="a tensor", got="a tuple that has it")
    return result


def _expect_none(effects: list[str], what: str, only: str = "") -> None:
    """None of the effects has come about; ``only`` is the misconception that is looked for."""
    filled = any("filled" in effect for effect in effects)
    for effect in effects:
        key = next((key for phrase, key in input_gradient.effects if phrase in effect), "")
        key = "adds in place" if key == "fills" and not filled else key
        expect(only not in ("", key), key, expected=what, got=f"the answer {effect}")


def _gradient_of(trial: Trial, model: nn.Module, x: Tensor, **how: Any) -> Tensor:
    """Calls the answer, as ``_call`` does, and compares with the live engine."""
    expected = _true_gradient(model, x)
    start = x.grad.clone() if x.is_leaf and x.grad is not None else torch.zeros_like(x)
    result = _call(trial, model, x, **how)
    if result is None and not x.requires_grad and _gives_tensor(trial, model, x.detach().clone().requires_grad_()):
        raise Missed("unflagged", expected=f"a gradient of shape {tuple(x.shape)}", got="None")
    got = trial.tensor(result)
    # A quotient is near in float64 and may be anywhere in float32, which is tried where float64 was right.
    rounded = x.dtype is torch.float32
    key = "quotient" if rounded or same(got, expected, rtol=0.05, atol=5e-3) else "other number"
    otherwise = () if rounded else _mistakes(model, x.detach(), expected, start)
    expect_same(got, expected, otherwise, key=key, agree=_close)
    return trial.tensor(got, dtype=x.dtype)


def _mistakes(model: nn.Module, x: Tensor, expected: Tensor, start: Tensor) -> Iterator[tuple[str, Tensor]]:
    inner = x.clone().requires_grad_()
    output = model(inner)
    yield "accumulated", expected + start
    yield "unflagged", torch.zeros_like(x)
    yield from (("mean", expected / count) for count in range(2, output.numel() + 1))
    for part in (output.flatten()[0], output[0].sum(), output[..., 0].sum(), output.max(), output.amax(-1).sum()):
        found = torch.autograd.grad(part, inner, retain_graph=True)[0]
        yield from (("part", found), ("map", found.abs()))
    yield from (("map", value) for value in (expected.abs(), expected.relu(), expected.square(), expected * x))
    yield from (("map", expected / size) for size in (expected.norm(), expected.abs().max(), expected.abs().sum()))
    yield from (("map", expected.abs() / size) for size in (expected.norm(), expected.abs().max()))
    yield from (("output", output), ("output", output.sum()))
    yield "jacobian", torch.autograd.functional.jacobian(model, x)
    # The last ones: nobody looks at the model any more.
    yield "train", _true_gradient(model.train(), x)
    yield "eval", _true_gradient(model.eval(), x)


def _lowers_flag(trial: Trial, model: nn.Module, x: Tensor) -> bool:
    """Whether a call lowers the flag of a leaf; with a result, which is no leaf, this raises."""
    aside, leaf = Trial(trial.answer, trial.name), x.detach().clone().requires_grad_()
    with suppress(AnswerRaised):
        aside.run(lambda: aside.answer(model, leaf), called="", watch={"x": leaf})
    return any("x.requires_grad to False" in effect for effect in aside.effects)


def _gives_tensor(trial: Trial, model: nn.Module, x: Tensor) -> bool:
    aside = Trial(trial.answer, trial.name)  # what it does here is not held against it
    try:
        return isinstance(_call(aside, model, x), Tensor)
    except AnswerRaised:
        return False


@input_gradient.claim(
    "is d model(x).sum() / dx of a model in eval mode, with the shape and dtype of `x`", weight=2, gate=True
)
def _(trial: Trial) -> None:
    for shape in _shapes(trial):
        _gradient_of(trial, _network(trial, shape[-1]).eval(), trial.randn(*shape))
    x = trial.randn(3, 4, dtype=torch.float32)
    _gradient_of(trial, _network(trial, 4, torch.float32).eval(), x)


@input_gradient.claim("has the dtype of `x` where that has 16 bits, too", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = trial.randn(3, 4, dtype=dtype)
        got = trial.tensor(_call(trial, _network(trial, 4, dtype).eval(), x), shape=x.shape)
        expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))


@input_gradient.claim("leaves `x`, its flag and its `.grad` alone, whatever they are", weight=2)
def _(trial: Trial) -> None:
    for shape in _shapes(trial):
        model = _network(trial, shape[-1]).eval()
        plain, fresh = trial.randn(*shape), trial.randn(*shape, requires_grad=True)
        leaf, source = trial.randn(*shape, requires_grad=True), trial.randn(*shape, requires_grad=True)
        leaf.grad = trial.randn(*shape)
        for x in (plain, leaf, fresh, source * 2, (source * 2).view(shape)):
            made = Calls()
            _gradient_of(trial, model, x, within=made)
            cloned = any(tensor.grad_fn and tensor.grad_fn.name() == "CloneBackward0" for tensor in made.tensors)
            filled = x.requires_grad and cloned and any("x.grad" in effect for effect in trial.effects)
            expect(not filled, "clone", expected="x.grad as it was", got="a gradient added to it")
            _expect_none(trial.effects, "x as it was", only="x changed")
            expect(source.grad is None, "non-leaf", expected="x as it was", got="its source has a .grad")


@input_gradient.claim("has no history", weight=1)
def _(trial: Trial) -> None:
    model, plain, flagged = _one_case(trial)
    for x in (plain, flagged, flagged * 2):
        expect_no_history(trial.tensor(_call(trial, model, x), shape=x.shape), "history")


@input_gradient.claim("touches no parameter's `.grad` or flag, and takes the model as it is", weight=4)
def _(trial: Trial) -> None:
    model, plain, _flagged = _one_case(trial)
    for part in (
        model,
        model[2],
    ):  # first all of it in training mode, then the part that a mode matters to in eval mode
        part.train(part is model)
        _gradient_of(trial, model, plain)
        _expect_none([effect for effect in trial.effects if "model" in effect], "a model as it was")


@input_gradient.claim("works for a frozen model", weight=1)
def _(trial: Trial) -> None:
    model, *inputs = _one_case(trial)
    model.requires_grad_(False)
    for x in inputs:
        try:
            _gradient_of(trial, model, x, show="input_gradient(a frozen model, x)")
        except AnswerRaised as raised:
            if "does not require grad" not in str(raised.error):
                raise
            raise Missed("frozen", expected="a gradient", raised=message_of(raised.error, 110)) from None
        except Missed as missed:
            if missed.misconception not in ("unflagged", "other number"):
                raise
            raise Missed("frozen", expected="the gradient that leads to x", got="another tensor") from None


@input_gradient.claim("works inside the caller's `no_grad`", weight=2)
def _(trial: Trial) -> None:
    model, *inputs = _one_case(trial)
    show = "input_gradient(model, x) under no_grad()"
    for flag, x in product((True, False), inputs):
        recorded = trial.tensor(_call(trial, model.requires_grad_(flag), x)).requires_grad  # judged above
        got = _gradient_of(trial, model, x, show=show, within=_callers_no_grad())
        if not recorded:
            expect_no_history(got, "history")


@input_gradient.claim("takes a flagged slice that was made under `no_grad`", weight=0.5)
def _(trial: Trial) -> None:
    model, _plain, flagged = _one_case(trial)
    with torch.no_grad():
        x = flagged[:]
    try:
        _gradient_of(trial, model, x, show="input_gradient(model, w[:] made under no_grad())")
    except (AnswerRaised, Missed) as failed:
        unused = isinstance(failed, AnswerRaised) and "not have been used in the graph" in str(failed.error)
        none = isinstance(failed, Missed) and failed.misconception in ("non-leaf", "unflagged")
        if not (unused or none) or not _gives_tensor(trial, model, flagged):
            raise
        raise Missed("slice", expected=f"a gradient of shape {tuple(x.shape)}", got="no path that leads to x") from None


@input_gradient.claim("where the model's forward raises, lets the error through, with everything as it was", weight=1)
def _(trial: Trial) -> None:
    # torch's own errors are RuntimeErrors.
    for kind, within, training in ((Unlucky, None, False), (RuntimeError, _callers_no_grad(), True)):
        model, x = _network(trial, 4).append(Raises(kind)).train(training), trial.randn(3, 4)
        call = partial(_call, trial, model, x, "input_gradient(a model that raises, x)", within)
        expect_raises(kind, call, "swallowed", what="the model's error", other="")
        _expect_none(trial.effects, "everything put back")

"""Asks for a slow average of a network's weights, in place; the check looks at values, history, memory and buffers."""

import contextlib
import copy

import torch
from torch import Tensor, nn

from course_utils.checks import modes
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Trial,
    exercise,
    expect,
    first_difference,
    gradient,
    reading,
    same,
    training_flags,
)
from course_utils.lessons.no_grad import _shared

ema_update = exercise(__file__)

_Tensors = dict[str, Tensor]


class _Means(nn.Module):
    """A layer with a scalar parameter and buffers that can all be averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(3, dtype=torch.float64))


class _Statistics(_Means):
    """A layer with buffers of several kinds, one of which is not in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.zeros(4, dtype=torch.bool))
        self.register_buffer("cache", torch.zeros(2, dtype=torch.float64), persistent=False)


def _pair(trial: Trial, *layers: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Two models of the same structure with other values. The online one is flagged; the target is frozen where the
    answer moves what is frozen, which has a claim of its own."""
    target, online = _frozen_pair(trial, *layers)
    return target.requires_grad_(not trial.once(_moves_frozen)), online


def _frozen_pair(trial: Trial, *layers: nn.Module) -> tuple[nn.Module, nn.Module]:
    online = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), *layers).double()
    target = copy.deepcopy(online).requires_grad_(False)
    for model in (online, target):
        trial.fill(model)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.copy_(trial.randn(*buffer.shape).abs() + 0.5)
            elif buffer.dtype == torch.bool:
                buffer.copy_(torch.arange(len(buffer)) % 2 == (model is target))
            else:
                buffer.fill_(trial.integer(5, 20) + 40 * (model is target))
    return target, online


def _decay(trial: Trial) -> float:
    return trial.integer(600, 950) / 1000


def _tensors(model: nn.Module) -> _Tensors:
    return dict(model.named_parameters()) | dict(model.named_buffers())


@torch.no_grad()
def _averages(target: nn.Module, online: nn.Module, decay: float) -> _Tensors:
    new = _tensors(online)
    return {
        name: decay * old + (1 - decay) * new[name] if old.is_floating_point() else new[name].clone()
        for name, old in _tensors(target).items()
    }


def _updated(trial: Trial, target: nn.Module, online: nn.Module, decay: float, *more: nn.Module) -> _Tensors:
    """The target's tensors after a call of the answer, which may change the values of ``more``, too."""
    flags, names, show = training_flags(target), _tensors(target).keys(), f"ema_update(target, online, {decay:.3f})"
    with _shared.watch_parts(trial, {"online": online}), _shared.watch_parts(trial, {"target": target}, tensors=False):
        trial.call(target, online, decay, may_change=(target, *more), show=show)
    if training_flags(target) != flags:
        trial.effects.append("changed the training mode of target")
    found = _tensors(target)
    there = found.keys() == names and all(tensor.device.type == "cpu" for tensor in found.values())
    expect(there, "new storage", expected="the tensors that were there, under their names", got="others")
    return found


def _all_same(got: _Tensors, expected: _Tensors) -> bool:
    return all(same(got[name], value) for name, value in expected.items())


def _missed(key: str, name: str, got: Tensor, expected: Tensor, before: Tensor) -> Missed:
    """What the card says of a tensor of the target that has other values than it should."""
    if got.shape != expected.shape:
        return Missed(key, expected=f"{name} of shape {tuple(expected.shape)}", got=f"shape {tuple(got.shape)}")
    place, right_number, number = first_difference(got, expected)
    shown = "the old value" if same(got, before) else f"{number:.6g}"
    return Missed(key, expected=f"{right_number:.6g} in {name}{place}", got=shown)


@ema_update.claim("moves every parameter that learns to decay·target + (1 - decay)·online", weight=0, gate=True)
def _(trial: Trial) -> None:
    for decay in (_decay(trial), 1.0, 0.0):
        target, online = _pair(trial)
        before, expected = copy.deepcopy(_tensors(target)), _averages(target, online, decay)
        readings = {"swapped": _averages(target, online, 1 - decay), "copied": _tensors(online), "elsewhere": before}
        x = trial.randn(2, 3)
        online_gives = _shared.in_eval_mode(online, x)
        after = _updated(trial, target, online, decay)
        _shared.expect_usable(trial, online, x, online_gives)
        for name, value in expected.items():
            if not same(after[name], value):
                raise _missed(reading(after, readings, _all_same), name, after[name], value, before[name])


def _moves_frozen(trial: Trial) -> bool:
    """Whether the answer moves a frozen target, or no target at all."""
    moved = []
    for flagged in (False, True):
        target, online = _frozen_pair(trial)
        target.requires_grad_(flagged)
        before, effects = copy.deepcopy(_tensors(target)), list(trial.effects)
        after = before
        with contextlib.suppress(AnswerRaised, Missed):  # that is for the claims to tell
            after = _updated(trial, target, online, 0.5)
        trial.effects, trial.called = effects, ""
        moved.append(not _all_same(after, before))
    return moved != [False, True]


@ema_update.claim("moves what is frozen, too", weight=2)
def _(trial: Trial) -> None:
    target, online = _frozen_pair(trial)
    for frozen in online[0].parameters():
        frozen.requires_grad_(False)
    before, expected = copy.deepcopy(_tensors(target)), _averages(target, online, 0.75)
    for name, got in _updated(trial, target, online, 0.75).items():
        if not same(got, expected[name]):
            raise _missed("skipped" if same(got, before[name]) else "", name, got, expected[name], before[name])


@ema_update.claim("records nothing and leaves `requires_grad` and `.grad` alone", weight=9)
def _(trial: Trial) -> None:
    everything = (0, 1, 2, 3)
    for flagged in ((), everything, (1, 2)) if trial.once(_moves_frozen) else (everything,):
        target, online = _pair(trial)
        for number, parameter in enumerate(target.parameters()):
            parameter.requires_grad_(number in flagged)
            parameter.grad = trial.randn(*parameter.shape)
        before = {name: (p.requires_grad, p.grad.clone()) for name, p in target.named_parameters()}
        expected = _averages(target, online, 0.75)
        for name, parameter in _updated(trial, target, online, 0.75).items():
            flag, grad = before[name]
            if parameter.grad_fn is not None:
                got = f"grad_fn {parameter.grad_fn.name()}"
                raise Missed("recorded", expected=f"target's {name} without history", got=got)
            kept = parameter.requires_grad == flag
            expect(kept, "flags", expected=f"requires_grad {flag} at {name}", got=str(not flag))
            kept = parameter.grad is not None and torch.equal(parameter.grad, grad)
            expect(kept, expected=f"the old .grad of {name}", got="another one")
            expect(same(parameter, expected[name]), expected=f"the average at {name}", got="other values")


@ema_update.claim("leaves the caller's grad mode as it was, on or off", weight=0.5)
def _(trial: Trial) -> None:
    for enabled in (True, False):
        target, online = _pair(trial)
        with torch.set_grad_enabled(enabled):
            _updated(trial, target, online, 0.75)
        modes.expect_grad_mode_kept(trial)


@ema_update.claim("works in place, on the same memory", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial, _Means())
    decay = _decay(trial)
    expected = _averages(target, online, decay)
    old = {name: (tensor, tensor.detach()) for name, tensor in _tensors(target).items()}
    now = _updated(trial, target, online, decay)
    for name, (tensor, alias) in old.items():
        kept = now.get(name) is tensor or not alias.is_floating_point()
        expect(kept, "new storage", expected=f"{name} to be the same tensor", got="another one in its place")
        kept = now[name].data_ptr() == alias.data_ptr()
        expect(kept, "new storage", expected=f"{name} on the same memory", got="other memory")
        # Parameters alone: what becomes of buffers has a claim of its own.
        kept = "3." in name or same(alias, expected[name])
        expect(kept, "new storage", expected=f"the update in the memory of {name}", got="the old values there")


@ema_update.claim("averages floating-point buffers and copies the others", weight=2)
def _(trial: Trial) -> None:
    norm = nn.BatchNorm1d(2)
    for layers, forgotten in (((norm,), "buffers"), ((_Statistics(), norm), "norms alone")):
        target, online = _pair(trial, *layers)
        decay = _decay(trial)
        before, expected = copy.deepcopy(_tensors(target)), _averages(target, online, decay)
        after = _updated(trial, target, online, decay)
        # The buffers in the state dict come first: who forgot all of them has not met the other question.
        for name in sorted(dict(target.named_buffers()), key=lambda name: name.endswith("cache")):
            got, wanted = after[name], expected[name]
            expect(got.dtype == wanted.dtype, "integers", expected=f"{name} as {wanted.dtype}", got=str(got.dtype))
            if same(got, wanted):
                continue
            if name.endswith("cache"):
                key = "state_dict"
            elif wanted.is_floating_point():
                key = "buffers copied" if same(got, _tensors(online)[name]) else forgotten
            else:  # the values are far enough apart for a rounded average to differ from the old one
                key = "left out" if same(got, before[name]) else "integers"
            raise _missed(key, name, got, wanted, before[name])


@ema_update.claim("updates what is shared in a model once", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial)
    for model in (target, online):
        extra = nn.Linear(3, 4, bias=False, dtype=torch.float64)
        extra.weight = model[0].weight
        first, second, layer = _Means(), _Means(), _Means()
        for means in (first, layer):
            means.mean.copy_(trial.randn(3))
        second.mean = first.mean
        model.extend((extra, layer, layer, first, second))
    target.requires_grad_(not trial.once(_moves_frozen))
    decay = _decay(trial)
    expected, twice = _averages(target, online, decay), _averages(target, online, decay**2)
    parameters = dict(target.named_parameters())
    for name, tensor in _updated(trial, target, online, decay).items():
        once = f"one update of {name}, which two layers share"
        right = same(tensor, expected[name])
        expect(right or not same(tensor, twice[name]), "twice", expected=once, got="two updates")
        # Buffers that were left out have a claim of their own.
        expect(right or name not in parameters, expected=once, got="other values")


@ema_update.claim("leaves alone what target and online share", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial)
    shared = nn.Sequential(nn.Linear(2, 2), _Means()).double()
    for tensor in _tensors(shared).values():  # multiples of 1/8, and a decay of 3/4: averaging these rounds nothing
        tensor.data.copy_(torch.arange(1.0, tensor.numel() + 1).view_as(tensor) / 8)
    before = copy.deepcopy(_tensors(shared))
    for model in (target, online):
        model.append(shared)
    _updated(trial, target, online, 0.75, online)
    for name, tensor in _tensors(shared).items():
        if not same(tensor, before[name]):
            trial.effects.append("changed what target and online share, and online with it")
            raise _missed("shared", f"the shared {name}", tensor, before[name], before[name])


@ema_update.claim(
    "is noticed by autograd: a backward that was recorded before raises, and gives no wrong gradient", weight=9
)
def _(trial: Trial) -> None:
    target, online = _pair(trial, _Means())
    factor, decay = trial.randn(requires_grad=True), _decay(trial)
    before = {name: tensor.detach().clone() for name, tensor in _tensors(target).items()}
    # What the target is multiplied by saves it for backward.
    recorded = {name: (factor * tensor).sum() for name, tensor in _tensors(target).items()}
    _updated(trial, target, online, decay)
    for name, product in recorded.items():
        with contextlib.suppress(RuntimeError):  # right, as is the old gradient of what was put in another memory
            if not same(gradient(product, factor), before[name].sum()):
                wanted = f"an error: {name} was edited after it was saved"
                raise Missed("unnoticed", expected=wanted, got="another gradient")

"""Asks for a slow average of a network's weights, in place; the check looks at values, history, memory and buffers."""

import copy

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Missed, Trial, exercise, expect, first_difference, reading, same, training_flags

ema_update = exercise(__file__)

_Tensors = dict[str, Tensor]


class _Statistics(nn.Module):
    """A layer with a scalar parameter and buffers of several kinds, one of which is not in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.zeros(4, dtype=torch.bool))
        self.register_buffer("cache", torch.zeros(2, dtype=torch.float64), persistent=False)


def _pair(trial: Trial, *layers: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Two models of the same structure with other values; the target is frozen, the online one flagged."""
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


def _updated(trial: Trial, target: nn.Module, online: nn.Module, decay: float) -> _Tensors:
    """The target's tensors after a call of the answer."""
    flags = training_flags(target)
    trial.call(target, online, decay, may_change=(target,), show=f"ema_update(target, online, decay={decay:.3f})")
    if training_flags(target) != flags:
        trial.effects.append("changed the training mode of target")
    return _tensors(target)


def _all_same(got: _Tensors, expected: _Tensors) -> bool:
    return all(same(got[name], value) for name, value in expected.items())


def _missed(key: str, name: str, got: Tensor, expected: Tensor, before: Tensor) -> Missed:
    """What the card says of a tensor of the target that has other values than it should."""
    if got.shape != expected.shape:
        return Missed(key, expected=f"{name} of shape {tuple(expected.shape)}", got=f"shape {tuple(got.shape)}")
    place, right_number, number = first_difference(got, expected)
    shown = "the old value" if same(got, before) else f"{number:.6g}"
    return Missed(key, expected=f"{right_number:.6g} in {name}{place}", got=shown)


@ema_update.claim("moves every parameter to decay·target + (1 - decay)·online", weight=0, gate=True)
def _(trial: Trial) -> None:
    for decay in (_decay(trial), 1.0, 0.0):
        target, online = _pair(trial)
        before, expected = copy.deepcopy(_tensors(target)), _averages(target, online, decay)
        readings = {"swapped": _averages(target, online, 1 - decay), "copied": _tensors(online), "elsewhere": before}
        after = _updated(trial, target, online, decay)
        expect(after.keys() == expected.keys(), expected="the same parameters as before", got="others")
        for name, value in expected.items():
            if not same(after[name], value):
                raise _missed(reading(after, readings, _all_same), name, after[name], value, before[name])


@ema_update.claim("records nothing and leaves the flags alone", weight=2)
def _(trial: Trial) -> None:
    for flagged in ((), (0, 1, 2, 3), (1, 2)):
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


@ema_update.claim("works in place, on the same memory", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial, nn.BatchNorm1d(2))
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
    for layers in ((nn.BatchNorm1d(2),), (_Statistics(), nn.BatchNorm1d(2))):
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
                key = "copied" if same(got, _tensors(online)[name]) else "buffers"
            else:  # the values are far enough apart for a rounded average to differ from the old one
                key = "left out" if same(got, before[name]) else "integers"
            raise _missed(key, name, got, wanted, before[name])


@ema_update.claim("updates what is shared once", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial)
    for model in (target, online):
        extra = nn.Linear(3, 4, bias=False, dtype=torch.float64)
        extra.weight = model[0].weight
        norm = nn.BatchNorm1d(2).double()
        first, second = _Statistics(), _Statistics()
        first.mean.copy_(trial.randn(3))
        second.mean = first.mean
        model.extend((extra, norm, norm, first, second))
    target.requires_grad_(False)
    decay = _decay(trial)
    expected, twice = _averages(target, online, decay), _averages(target, online, decay**2)
    parameters = dict(target.named_parameters())
    for name, tensor in _updated(trial, target, online, decay).items():
        once = f"one update of {name}, which two layers share"
        right = same(tensor, expected[name])
        expect(right or not same(tensor, twice[name]), "twice", expected=once, got="two updates")
        # Buffers that were left out have a claim of their own.
        expect(right or name not in parameters, expected=once, got="other values")

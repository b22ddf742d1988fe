"""``ema_update``: what it claims."""

import copy

import torch
from torch import Tensor, nn

from course_utils.checks.claims import same, training_flags
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial

ema_update = exercise(__file__)


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


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


def _averages(target: nn.Module, online: nn.Module, decay: float) -> dict[str, Tensor]:
    new = _tensors(online)
    return {
        name: decay * old.detach() + (1 - decay) * new[name].detach()
        if old.is_floating_point()
        else new[name].detach().clone()
        for name, old in _tensors(target).items()
    }


def _update(trial: Trial, target: nn.Module, online: nn.Module, decay: float) -> None:
    flags = training_flags(target)
    show = f"ema_update(target, online, decay={decay:.3f})"
    trial.call(target, online, decay, may_change=(target,), show=show)
    if training_flags(target) != flags:
        trial.effects.append("changed the training mode of target")


def _decay(trial: Trial) -> float:
    return trial.integer(600, 950) / 1000


@ema_update.claim("moves every parameter to decay·target + (1 - decay)·online", weight=0, gate=True)
def _(trial: Trial) -> None:
    for decay in (_decay(trial), 1.0, 0.0):
        target, online = _pair(trial)
        before, expected = copy.deepcopy(target), _averages(target, online, decay)
        swapped = _averages(target, online, 1 - decay)
        _update(trial, target, online, decay)
        after = _tensors(target)
        if after.keys() != expected.keys():
            raise Missed(expected="the same parameters as before", got="others")
        if all(same(after[name], value) for name, value in expected.items()):
            continue
        if all(same(after[name], value) for name, value in swapped.items()):
            key = "swapped"
        elif all(same(after[name], value) for name, value in _tensors(online).items()):
            key = "copied"
        else:
            key = ""
        still = all(torch.equal(after[name], value) for name, value in _tensors(before).items())
        if still:
            key = key or "elsewhere"
        name = next(name for name, value in expected.items() if not same(after[name], value))
        shown = "the old values" if still else f"{after[name].flatten()[0].item():.6f}"
        raise Missed(key, expected=f"{expected[name].flatten()[0].item():.6f} at the start of {name}", got=shown)


@ema_update.claim("records nothing and leaves the flags alone", weight=2)
def _(trial: Trial) -> None:
    for flagged in ((), (0, 1, 2, 3), (1, 2)):
        target, online = _pair(trial)
        for number, parameter in enumerate(target.parameters()):
            parameter.requires_grad_(number in flagged)
            parameter.grad = trial.randn(*parameter.shape)
        before = {name: (p.requires_grad, p.grad.clone()) for name, p in target.named_parameters()}
        expected = _averages(target, online, 0.75)
        _update(trial, target, online, 0.75)
        for name, parameter in _tensors(target).items():
            flag, grad = before[name]
            if parameter.grad_fn is not None:
                got = f"grad_fn {parameter.grad_fn.name()}"
                raise Missed("recorded", expected=f"target's {name} without history", got=got)
            if parameter.requires_grad != flag:
                raise Missed("flags", expected=f"requires_grad {flag} at {name}", got=str(not flag))
            if parameter.grad is None or not torch.equal(parameter.grad, grad):
                raise Missed(expected=f"the old .grad of {name}", got="another one")
            if not same(parameter, expected[name]):
                raise Missed(expected=f"the average at {name}", got="other values")


@ema_update.claim("works in place, on the same memory", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial, nn.BatchNorm1d(2))
    decay = _decay(trial)
    expected = {name: value for name, value in _averages(target, online, decay).items() if "3." not in name}
    # Parameters alone: what becomes of buffers has a claim of its own.
    old = {name: (tensor, tensor.detach()) for name, tensor in _tensors(target).items()}
    _update(trial, target, online, decay)
    now = _tensors(target)
    for name, (tensor, alias) in old.items():
        if now.get(name) is not tensor and alias.is_floating_point():
            raise Missed("new storage", expected=f"{name} to be the same tensor", got="another one in its place")
        if now[name].data_ptr() != alias.data_ptr():
            raise Missed("new storage", expected=f"{name} on the same memory", got="other memory")
        if name in expected and not same(alias, expected[name]):
            raise Missed("new storage", expected=f"the update in the memory of {name}", got="the old values there")


@ema_update.claim("averages floating-point buffers and copies the others", weight=2)
def _(trial: Trial) -> None:
    for layers in ((nn.BatchNorm1d(2),), (_Statistics(), nn.BatchNorm1d(2))):
        target, online = _pair(trial, *layers)
        decay = _decay(trial)
        before = {name: tensor.detach().clone() for name, tensor in _tensors(target).items()}
        expected = _averages(target, online, decay)
        _update(trial, target, online, decay)
        after = _tensors(target)
        # The buffers in the state dict come first: who forgot all of them has not met the other question.
        names = sorted(dict(target.named_buffers()), key=lambda name: name.endswith("cache"))
        for name in names:
            got, wanted = after[name], expected[name]
            if got.dtype != wanted.dtype:
                raise Missed("integers", expected=f"{name} as {wanted.dtype}", got=str(got.dtype))
            if same(got, wanted):
                continue
            if name.endswith("cache"):
                key = "state_dict"
            else:
                key = "integers" if not wanted.is_floating_point() else "buffers"
                if wanted.is_floating_point() and torch.equal(got, _tensors(online)[name]):
                    raise Missed("copied", expected=f"an average at {name}", got="online's values")
            if key == "integers" and torch.equal(got, before[name]):
                key = "left out"  # the values are far enough apart for a rounded average to differ from the old one
            shown = "the old value" if torch.equal(got, before[name]) else f"{got.flatten()[0].item()}"
            raise Missed(key, expected=f"{wanted.flatten()[0].item()} at the start of {name}", got=shown)


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
    _update(trial, target, online, decay)
    parameters = dict(target.named_parameters())
    for name, tensor in _tensors(target).items():
        if same(tensor, expected[name]):
            continue
        if same(tensor, twice.get(name, expected[name])):
            raise Missed("twice", expected=f"one update of {name}, which two layers share", got="two updates")
        if name in parameters:  # buffers that were left out have a claim of their own
            raise Missed(expected=f"one update of {name}, which two layers share", got="other values")

"""``ema_update``: a slow average of a network's weights, in place."""

import copy

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared, outcome

ema_update = compared(__file__)


def _pair(trial: Trial, *layers: nn.Module) -> tuple[nn.Module, nn.Module]:
    """A frozen target, and a model of the same structure that learns: all their values differ."""
    online = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), *layers).double()
    target = copy.deepcopy(online).requires_grad_(False)
    for number, model in enumerate((online, target)):
        trial.fill(model)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.copy_(trial.randn(*buffer.shape).abs() + 0.5)
            else:
                buffer.fill_(trial.integer(5, 20) + 40 * number)
    return target, online


def _updated(trial: Trial, target: nn.Module, online: nn.Module, show: str = "target, online") -> dict[str, Tensor]:
    """The target's tensors after a call of the answer."""
    decay = trial.integer(600, 900) / 1000
    trial.call(target, online, decay, may_change=(target,), show=f"ema_update({show}, {decay:.3f})")
    after = dict(target.named_parameters()) | dict(target.named_buffers())
    return {f"target.{name}": tensor for name, tensor in after.items()}


@ema_update.looks("moves every weight to decay · target + (1 - decay) · online", gate=True)
def _(trial: Trial) -> Seen:
    return _updated(trial, *_pair(trial), "frozen target, online")


@ema_update.looks("averages floating-point buffers, and copies the others", weight=6)
def _(trial: Trial) -> Seen:
    table = nn.Identity()
    table.register_buffer("table", torch.zeros(3), persistent=False)
    pair = _pair(trial, nn.BatchNorm1d(2), table)
    return _updated(trial, *pair, "target, online with batch norm and a buffer of their own")


@ema_update.looks("averages the weights that are frozen in both models, too")
def _(trial: Trial) -> Seen:
    target, online = _pair(trial)
    online[0].requires_grad_(False)
    return _updated(trial, target, online, "target, online with a frozen layer")


@ema_update.looks("records nothing, and leaves every requires_grad as it is", weight=6)
def _(trial: Trial) -> Seen:
    for what, learns in (("frozen target", False), ("target that requires grad", True)):
        target, online = _pair(trial)
        target.requires_grad_(learns)
        after = _updated(trial, target, online, f"{what}, online")
        yield "requires grad afterwards", {name: tensor.requires_grad for name, tensor in after.items()}
        yield "leaf afterwards", {name: tensor.is_leaf for name, tensor in after.items()}


@ema_update.looks("works in place, and backward of an earlier loss raises", weight=3)
def _(trial: Trial) -> Seen:
    target, online = _pair(trial)
    factor = trial.randn(requires_grad=True)
    memory = {name: parameter.detach() for name, parameter in target.named_parameters()}
    loss = sum((factor * parameter).sum() for parameter in target.parameters())
    _updated(trial, target, online)
    yield "in the memory of the target", memory
    called = f"{trial.called}, then backward"
    ended = outcome(lambda: trial.run(lambda: torch.autograd.grad(loss, factor)[0], called=called))
    yield "backward of an earlier loss", ended

"""``freeze``: what it claims."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.requires_grad._shared import _fill_gradients, _Rest

freeze = exercise(__file__)


class _Net(nn.Module):
    """Parameters of its own and at three depths, batch norm, buffers, one of them flagged, a whole-number parameter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.table = nn.Parameter(torch.arange(3), requires_grad=False)
        self.register_buffer("offset", torch.ones(width, dtype=torch.float64, requires_grad=True))
        self.stem = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
        self.out = nn.Linear(width, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Sequential(nn.Linear(width, width)), nn.Tanh()) for _ in range(2))


def _net(trial: Trial) -> _Net:
    net = _Net(trial.integer(2, 4)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.is_floating_point():
                parameter.copy_(trial.randn(*parameter.shape))
    net.stem[1].running_mean.copy_(trial.randn(*net.scale.shape))
    net.blocks[0].eval()
    return net


def _frozen(trial: Trial, module: nn.Module, show: str = "freeze(module)") -> Any:
    """Calls the answer, and returns what it returned. The module's parameters must be frozen afterwards."""
    before = {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    training = [submodule.training for submodule in module.modules()]
    result = trial.call(module, may_change=(module,), show=show)
    flagged = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if flagged:
        changed = [submodule.training for submodule in module.modules()] != training
        key = "eval" if changed else _why_flagged(module, before, flagged, result)
        raise Missed(key, expected="no parameter that requires grad", still_flagged=", ".join(flagged[:4]))
    return result


def _why_flagged(module: nn.Module, before: Mapping[str, bool], flagged: list[str], result: Any) -> str:
    if any(not before[name] for name in flagged):
        return "toggle"
    lowered = [name for name, flag in before.items() if flag and name not in flagged]
    if lowered:
        deepest = max(name.count(".") for name in flagged)
        if deepest == 0:
            return "own forgotten"
        if all(name.endswith("weight") for name in lowered):
            return "weights"
        return "shallow" if deepest > max(name.count(".") for name in lowered) else "kinds"
    if any("requires_grad" in vars(submodule) for submodule in module.modules()):
        return "attribute"
    if any(vars(parameter) for parameter in module.parameters()):
        return "misspelt"
    if isinstance(result, nn.Module) and result is not module:
        return "copy"
    return "own forgotten" if not list(module.children()) else "elsewhere"


@freeze.claim("lowers the flag of every parameter, however deep", weight=2, gate=True)
def _(trial: Trial) -> None:
    _frozen(trial, _net(trial))
    single = trial.fill(nn.Linear(trial.integer(2, 4), 2))
    _frozen(trial, single, "freeze(nn.Linear(...))")
    _frozen(trial, nn.Sequential(nn.Tanh()), "freeze(a module without parameters)")
    partly = _net(trial)
    partly.scale.requires_grad_(False)
    partly.stem[0].weight.requires_grad_(False)
    _frozen(trial, partly, "freeze(a module that is partly frozen)")


@freeze.claim("drops gradients from before, so that no optimizer moves a weight", weight=3)
def _(trial: Trial) -> None:
    net = _net(trial)
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9, weight_decay=0.1)
    _fill_gradients(trial, net)
    optimizer.step()  # fills the momentum
    net.scale.requires_grad_(False)  # frozen by somebody else, and its gradient forgotten
    net.stem[0].bias.grad = None
    _frozen(trial, net, "freeze(module) after a backward")
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    left = [name for name, parameter in net.named_parameters() if parameter.grad is not None]
    optimizer.step()
    moved = [name for name, parameter in net.named_parameters() if not torch.equal(parameter.detach(), before[name])]
    if left:
        gradients = [dict(net.named_parameters())[name].grad for name in left]
        key = "stale" if any(gradient.any() for gradient in gradients) else "zeros"
        raise Missed(
            key, expected="every .grad None", not_None=", ".join(left[:4]), moved_by_a_step=f"{len(moved)} tensors"
        )
    if moved:
        raise Missed("replaced", expected="the same weights after a step", got=f"{moved[0]} moved")


@freeze.claim("leaves parameters, buffers and training flags as they are", weight=0.5)
def _(trial: Trial) -> None:
    net = _net(trial)
    _fill_gradients(trial, net)
    rest = _Rest(net)
    _frozen(trial, net)
    rest.judge()


@freeze.claim("lets gradients pass through to what comes before", weight=0.5)
def _(trial: Trial) -> None:
    width = trial.integer(2, 4)
    net = trial.fill(nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Sequential(nn.Linear(width, 2))).double())
    x = trial.randn(trial.integer(4, 6), 3, requires_grad=True)
    (expected,) = torch.autograd.grad(net(x).square().sum(), x)
    _frozen(trial, net)
    out = net(x)
    if not out.requires_grad:
        raise Missed("no_grad", expected="an output with a path to the flagged input", got="an output without history")
    (got,) = torch.autograd.grad(out.square().sum(), x, allow_unused=True)
    if got is None or not torch.allclose(got, expected):
        raise Missed("no_grad", expected="the gradient of the input as before", got="another gradient")


@freeze.claim("returns the module it was given, and may be called twice", weight=1)
def _(trial: Trial) -> None:
    net = _net(trial)
    rest = _Rest(net)
    for time in ("first", "second"):
        result = _frozen(trial, net, f"freeze(module), the {time} time")
        if result is None:
            raise Missed("no return value", expected="the module itself", got="None")
        if result is not net:
            key = "copy" if isinstance(result, nn.Module) else ""
            raise Missed(key, expected="the module itself", got=f"another {type(result).__name__}")
    rest.judge()

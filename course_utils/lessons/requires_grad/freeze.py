"""``freeze`` lowers every flag in a module, and drops what is left in ``.grad``."""

import copy

import torch
from torch import nn

from course_utils.checks.compare import Missed, Seen, Trial, compared
from course_utils.lessons.requires_grad._shared import flags, gradients, rest, with_gradients

freeze = compared(__file__, copy=copy)


class _Deep(nn.Module):
    """A parameter of its own, layers of several kinds, and layers inside layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.stem = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
        self.cell = nn.GRUCell(width, width)  # whose parameters are weight_ih, weight_hh, bias_ih, bias_hh
        self.blocks = nn.ModuleList(nn.Sequential(nn.Sequential(nn.Linear(width, width)), nn.Tanh()) for _ in range(2))


def _flat(trial: Trial) -> nn.Module:
    return trial.fill(nn.Sequential(nn.Linear(3, trial.integer(2, 4)), nn.Tanh()).double())


def _freeze(trial: Trial, module: nn.Module, what: str) -> object:
    return trial.call(module, may_change=(module,), show=f"freeze({what})")


@freeze.looks("lowers the flags in an `nn.Sequential` of layers", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    module = _flat(trial)
    _freeze(trial, module, "nn.Sequential(nn.Linear(...), nn.Tanh())")
    return flags(module)


@freeze.looks("lowers them however deep, and whatever the layer", weight=3)
def _(trial: Trial) -> Seen:
    module = trial.fill(_Deep(trial.integer(2, 4)).double())
    _freeze(trial, module, "a module with modules in modules")
    return flags(module)


@freeze.looks("drops the stale `.grad`", weight=5)
def _(trial: Trial) -> Seen:
    module = with_gradients(trial, _flat(trial))
    _freeze(trial, module, "a module after a backward")
    return gradients(module)


@freeze.looks("does the same to a parameter that was frozen before, or has no `.grad`")
def _(trial: Trial) -> Seen:
    module = with_gradients(trial, _flat(trial))
    module[0].weight.requires_grad_(False)
    module[0].bias.grad = None
    _freeze(trial, module, "a module whose weight was frozen after a backward")
    return flags(module) | gradients(module)


@freeze.looks("returns the same object")
def _(trial: Trial) -> Seen:
    module = _flat(trial)
    result = _freeze(trial, module, "module")
    if result is None:
        raise Missed("no return value", expected="the module", got="None")
    return {"returned": "the module" if result is module else f"another {type(result).__name__}"}


@freeze.looks("leaves all else as it was, and the module as easy to pass through")
def _(trial: Trial) -> Seen:
    module = trial.fill(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Tanh())).double())
    module[2].eval()
    parameters = list(module.parameters())
    _freeze(trial, module, "a module in training mode, with a part in eval mode")
    yield "the parameters, the same objects", [p is q for p, q in zip(module.parameters(), parameters, strict=False)]
    yield from rest(module).items()
    output = module(trial.randn(5, 3, requires_grad=True))
    yield "for a flagged input the output requires grad", output.requires_grad

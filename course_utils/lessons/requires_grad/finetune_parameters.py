"""``finetune_parameters`` leaves one submodule to train, and gives its parameters."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from course_utils.checks.compare import Missed, Raised, Seen, Trial, compared, outcome
from course_utils.lessons.requires_grad._shared import flags, gradients, rest, with_gradients

finetune_parameters = compared(__file__)


class _Model(nn.Module):
    """A parameter of its own, submodules on two levels, and two whose names begin alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.encoder = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
        self.encoder2 = nn.Linear(width, width)
        self.decoder = nn.ModuleDict({"hidden": nn.Linear(width, width), "head": nn.Linear(width, 2)})


def _two(trial: Trial) -> nn.Module:
    width = trial.integer(2, 4)
    encoder = nn.Sequential(nn.Linear(3, width), nn.Tanh())
    return trial.fill(nn.ModuleDict({"encoder": encoder, "decoder": nn.Linear(width, 5)}).double())


def _call(trial: Trial, model: nn.Module, name: str, what: str = "model") -> Any:
    return trial.call(model, name, may_change=(model,), show=f"finetune_parameters({what}, {name!r})")


@finetune_parameters.looks("flags the parameters of one of two submodules, and no others", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    model = _two(trial)
    _call(trial, model, "decoder")
    return flags(model)


@finetune_parameters.looks("finds the submodule that is meant, and freezes all else, wherever it stands", weight=3)
def _(trial: Trial) -> Seen:
    for name in ("encoder", "decoder.head"):
        model = trial.fill(_Model(trial.integer(2, 4)).double())
        ended = outcome(lambda name=name, model=model: _call(trial, model, name))
        if isinstance(ended, Raised):  # whatever it says: "decoder" was found
            raise Missed("children", expected=f"the parameters of {name}", raised=ended.message)
        yield from flags(model).items()


@finetune_parameters.looks("does the same in a model that was frozen before, after a backward", weight=2)
def _(trial: Trial) -> Seen:
    model = with_gradients(trial, _two(trial)).requires_grad_(False)
    _call(trial, model, "decoder", "a model frozen after a backward")
    return flags(model) | gradients(model, of="encoder")


@finetune_parameters.looks("returns its parameters in a list", weight=2)
def _(trial: Trial) -> Seen:
    model = _two(trial)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    result = _call(trial, model, "decoder")
    if result is None:
        raise Missed("no return value", expected="a list of parameters", got="None")
    yield "type of the result", type(result).__name__
    items = result if isinstance(result, Iterable) else ()
    yield "what is in it", ", ".join(sorted(names.get(id(item), f"a {type(item).__name__}") for item in items))


@finetune_parameters.looks("drops the stale `.grad` of all others", weight=6)
def _(trial: Trial) -> Seen:
    model = with_gradients(trial, _two(trial))
    _call(trial, model, "decoder", "a model after a backward")
    return gradients(model, of="encoder")


@finetune_parameters.looks("leaves all else as it was")
def _(trial: Trial) -> Seen:
    model = with_gradients(trial, trial.fill(_Model(trial.integer(2, 4)).double()))
    model.encoder[1].eval().running_mean.copy_(trial.randn(*model.scale.shape))
    _call(trial, model, "decoder")
    return rest(model) | gradients(model, of="decoder")


@finetune_parameters.looks("raises ValueError for a name that is no submodule", "wrong name")
def _(trial: Trial) -> Seen:
    for name in ("decodr", "decoder.tail", "decoder.head.weight"):
        model = trial.fill(_Model(3).double())
        yield f"for {name!r}", outcome(lambda name=name, model=model: _call(trial, model, name))

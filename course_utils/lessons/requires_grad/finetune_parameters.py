"""``finetune_parameters``: train one submodule alone. The check looks at flags, gradients, the list and wrong names."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import message_of
from course_utils.checks.claims import AnswerRaised, Lazy, Missed, Trial, equal_or_none, exercise, expect, first_sign
from course_utils.lessons.requires_grad._shared import (
    expect_own_parameters,
    fill_gradients,
    flagged_names,
    in_lists,
    parameters,
    rest_kept,
    some_of,
)

finetune_parameters = exercise(__file__)


class _Model(nn.Module):
    """Two levels, a parameter of its own, batch norm; where it is tied, two weights in two places each."""

    def __init__(self, width: int, tied: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.encoder = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Tanh())
        self.middle = nn.Linear(width, width)
        self.decoder = nn.ModuleDict({name: nn.Linear(width, width) for name in ("hidden", "head", "tail")})
        self.activation = nn.Tanh()
        if tied:
            self.decoder.head.weight = self.middle.weight
            self.decoder.tail.weight = self.decoder.hidden.weight


def _model(trial: Trial, tied: bool = False) -> _Model:
    model = trial.fill(_Model(trial.integer(2, 4), tied).double())
    model.encoder[1].running_mean.copy_(trial.randn(*model.scale.shape))
    fill_gradients(trial, model)
    model.encoder[1].eval()
    return model


def _finetune(trial: Trial, model: nn.Module, name: str, shown: str = "model") -> Any:
    return trial.call(model, name, may_change=(model,), show=f"finetune_parameters({shown}, {name!r})")


def _partly_frozen(trial: Trial, tied: bool) -> _Model:
    model = _model(trial, tied)
    model.scale.requires_grad_(False)  # frozen before, its gradient forgotten
    model.encoder[0].bias.grad = model.decoder.hidden.bias.grad = None
    return model


def _gradients_left(model: nn.Module, name: str) -> dict[str, Tensor]:
    """The gradients of all but the submodule."""
    chosen = set(model.get_submodule(name).parameters())
    return {key: p.grad for key, p in model.named_parameters() if p not in chosen and p.grad is not None}


def _judge_flags(trial: Trial, model: nn.Module, name: str, shown: str = "model") -> Any:
    """Calls the answer; the submodule's parameters, and no others, must be flagged afterwards. Returns its result."""
    before, was_flagged = parameters(model), flagged_names(model)
    try:
        result = _finetune(trial, model, name, shown)
    except AnswerRaised as raised:
        known = any(phrase in str(raised.error) for phrase, _ in finetune_parameters.raises)
        looked_up = isinstance(raised.error, (ValueError, AttributeError, KeyError))
        if known or not looked_up or not ("." in name or name == "activation"):
            raise
        key = "children" if "." in name else "no parameters"
        raise Missed(key, expected=f"the parameters of {name}", raised=message_of(raised.error, 100)) from None
    expect_own_parameters(model, before)
    chosen = set(model.get_submodule(name).parameters())
    own = {key: value for key, value in before.items() if key.startswith(f"{name}.")}
    missing = [key for key, value in own.items() if not value.requires_grad]
    names = [key for key, value in before.items() if missing and value is before[missing[0]]]
    key = "shared" if len(names) > 1 else "" if set(missing) & set(was_flagged) else "not raised"
    others = [(f" (also {key})", value) for key, value in before.items() if key not in own]
    shown = (key + "".join(also for also, value in others if value is own[key]) for key in missing)
    expect(not missing, key, expected=f"the parameters of {name} flagged", not_flagged=some_of(shown))
    extra = [key for key in flagged_names(model) if before[key] not in chosen]
    key = first_sign(
        ("attribute", any("requires_grad" in vars(submodule) for submodule in model.modules())),
        ("root", all("." not in key for key in extra)),
        ("prefix", all(key.startswith(name) and not key.startswith(f"{name}.") for key in extra)),
        ("children", "." in name and all(key.startswith(name.partition(".")[0] + ".") for key in extra)),
        ("rest trains", True),
    )
    expect(not extra, key, expected=f"only the parameters of {name} flagged", flagged_too=some_of(extra))
    return result


def _gradients(model: nn.Module) -> list[Tensor | None]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]


@finetune_parameters.claim(
    "flags a direct submodule's parameters, and no others, where nothing is frozen or shared and no names begin alike",
    weight=1,
    gate=True,
)
def _(trial: Trial) -> None:
    for name in ("decoder", "encoder"):
        _judge_flags(trial, _model(trial), name)


@finetune_parameters.claim("flags those of a submodule inside a submodule, and no others", weight=1)
def _(trial: Trial) -> None:
    for name in ("decoder.head", "encoder.0"):
        _judge_flags(trial, _model(trial), name)


@finetune_parameters.claim("leaves out a submodule whose name begins alike", weight=1)
def _(trial: Trial) -> None:
    model = _model(trial)
    model.encoder2 = nn.Linear(2, 2)
    _judge_flags(trial, model, "encoder")


@finetune_parameters.claim("flags a submodule that was frozen before", weight=1)
def _(trial: Trial) -> None:
    model = _model(trial)
    _judge_flags(trial, model, "encoder")
    _judge_flags(trial, model, "decoder", "model after the call for its encoder")


@finetune_parameters.claim("takes a submodule without parameters", weight=0.5)
def _(trial: Trial) -> None:
    result = _judge_flags(trial, _model(trial), "activation")
    expect(result is not None, "no return value", expected="an empty list", got="None")


@finetune_parameters.claim("returns a list of them, once each, also where weights are shared", weight=2)
def _(trial: Trial) -> None:
    for tied, name in product((False, True), ("decoder", "middle", "decoder.head")):
        model = _model(trial, tied)
        result = _judge_flags(trial, model, name, "model with shared weights" if tied else "model")
        own, wanted = set(model.parameters()), set(model.get_submodule(name).parameters())
        expect(result is not None, "no return value", expected=f"a list of {len(wanted)} parameters", got="None")
        key = "no list" if isinstance(result, Iterable) else ""
        expect(isinstance(result, list), key, expected="a list", got=Lazy(lambda: type(result).__name__))
        for item in result:
            key = "pairs" if isinstance(item, (tuple, str)) else ""
            expect(isinstance(item, Tensor), key, expected="parameters", got=Lazy(lambda: item))
        got = set(result)
        shared = got and not wanted <= got
        key = first_sign(("replaced", not got <= own), ("everything", wanted < got), ("shared", shared))
        expect(got == wanted, key, expected=f"the {len(wanted)} parameters of the submodule", got=f"another {len(got)}")
        expect(len(result) == len(got), "twice", expected=f"{len(got)} parameters, once each", got=f"{len(result)}")


@finetune_parameters.claim("drops the others' gradients, and leaves the chosen ones'", weight=2)
def _(trial: Trial) -> None:
    for name, tied in (("decoder", True), ("encoder", False), ("decoder.head", False)):
        model = _partly_frozen(trial, tied)
        chosen = {parameter: key for key, parameter in model.get_submodule(name).named_parameters(prefix=name)}
        names, before, was_flagged = list(parameters(model).values()), _gradients(model), flagged_names(model)
        _judge_flags(trial, model, name)
        pairs = zip(model.parameters(), before, strict=True)
        lost = [p for p, was in pairs if p in chosen and not equal_or_none(p.grad, was)]
        key = "shared" if all(sum(p is value for value in names) > 1 for p in lost) else "cleared"
        # A shared weight goes by its name in the submodule.
        expect(
            not lost, key, expected=Lazy(lambda: f"{chosen[lost[0]]}.grad as it was"), got=Lazy(lambda: lost[0].grad)
        )
        left = _gradients_left(model, name)
        key = "stale" if any(key in was_flagged for key in left) else "frozen before"
        if left and key == "stale":
            again = in_lists(_partly_frozen(trial, tied))
            with suppress(AnswerRaised):
                _finetune(Trial(trial.answer, trial.name), again, name)
            key = key if _gradients_left(again, name) else "read twice"
        got = "a gradient" if any(map(torch.any, left.values())) else "zeros"
        expect(not left, key, expected=".grad None", not_None=some_of(left), got=got)


@finetune_parameters.claim("leaves parameters, buffers and training flags as they are", weight=0.5)
def _(trial: Trial) -> None:
    model = _model(trial)
    with rest_kept(model):
        _judge_flags(trial, model, "decoder")


# Each of them looks like a submodule to some way of looking names up.
_NO_SUBMODULES = {
    "silent": ("decodr", "enc", "decoder.body"),
    "empty name": ("",),
    "parameter's name": ("decoder.head.weight", "scale", "encoder.1.running_mean", "training"),
}


@finetune_parameters.claim("raises ValueError for a name that is no submodule, names those there are", weight=1.5)
def _(trial: Trial) -> None:
    for misconception, name in ((key, name) for key, names in _NO_SUBMODULES.items() for name in names):
        model = _model(trial)
        try:
            got = _finetune(trial, model, name)
        except AnswerRaised as raised:
            message, shown = str(raised.error), message_of(raised.error, 100)
            # Another name that is none had its ValueError: it is not the type, but what the look-up finds.
            key = misconception if misconception == "parameter's name" else "error type"
            expect(isinstance(raised.error, ValueError), key, expected="ValueError", got=shown)
        else:
            raise Missed(misconception, expected="ValueError", got=got)
        unnamed = ", ".join(child for child, _ in model.named_children() if child not in message)
        expect(not unnamed, "message", expected=f"a message that names {unnamed}", got=message[:120])


@finetune_parameters.claim("leaves flags and gradients as they are where it raises an error", weight=0.5)
def _(trial: Trial) -> None:
    for name in (name for names in _NO_SUBMODULES.values() for name in names):
        model = _model(trial)
        flags, gradients = flagged_names(model), _gradients(model)
        try:
            _finetune(trial, model, name)
        except AnswerRaised:
            pass
        else:
            continue  # told above
        kept = flagged_names(model) == flags and all(map(equal_or_none, _gradients(model), gradients))
        expect(kept, "half done", expected="a model as it was", got="changed flags or gradients")


@finetune_parameters.claim("takes each name of a submodule that stands in two places", weight=0.5)
def _(trial: Trial) -> None:
    for name in ("tied", "decoder.again"):
        model = _model(trial)
        model.tied = model.middle
        model.decoder["again"] = model.decoder.head
        try:
            _judge_flags(trial, model, name, "model with a submodule in two places")
        except (AnswerRaised, Missed) as failed:
            # A name in two parts, or a weight in two places, is another mistake, and judged by another claim.
            if isinstance(failed, AnswerRaised) and isinstance(failed.error, ValueError):
                raise Missed("second name", expected=f"the parameters of {name}", got="ValueError") from None
            raise

"""``finetune_parameters``: what it claims."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.requires_grad._shared import _fill_gradients, _Rest

finetune_parameters = exercise(__file__)


class _Model(nn.Module):
    """Names that begin alike, two levels, a parameter of its own, batch norm, one weight in two places."""

    def __init__(self, width: int, tied: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.encoder = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Tanh())
        self.encoder2 = nn.Linear(width, width)
        self.decoder = nn.Module()
        self.decoder.hidden = nn.Linear(width, width)
        self.decoder.head = nn.Linear(width, width)
        self.decoder.headless = nn.Linear(width, width)
        self.activation = nn.Tanh()
        if tied:
            self.decoder.head.weight = self.encoder2.weight
            self.decoder.headless.weight = self.decoder.hidden.weight


def _model(trial: Trial, tied: bool = False) -> _Model:
    model = trial.fill(_Model(trial.integer(2, 4), tied).double())
    model.encoder[1].running_mean.copy_(trial.randn(*model.scale.shape))
    _fill_gradients(trial, model)
    model.encoder[1].eval()
    return model


def _finetune(trial: Trial, model: nn.Module, name: str, show: str = "") -> Any:
    return trial.call(model, name, may_change=(model,), show=show or f"finetune_parameters(model, {name!r})")


def _flagged(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter.requires_grad]


def _phrase(error: BaseException) -> bool:
    """Whether the error is one that the exercise knows by its message."""
    return any(phrase in str(error) for phrase, _ in finetune_parameters.raises)


def _judge_flags(trial: Trial, model: nn.Module, name: str, show: str = "") -> Any:
    """Calls the answer; the submodule's parameters, and no others, must be flagged afterwards. Returns its result."""
    before = dict(model.named_parameters(remove_duplicate=False))
    try:
        result = _finetune(trial, model, name, show)
    except AnswerRaised as raised:
        looked_up = isinstance(raised.error, (ValueError, AttributeError, KeyError))
        if not looked_up or _phrase(raised.error) or not ("." in name or name == "activation"):
            raise
        key = "children" if "." in name else "no parameters"
        kind = type(raised.error).__name__
        raise Missed(key, expected=f"the parameters of {name}", raised=f"{kind}: {str(raised.error)[:80]}") from None
    chosen = {id(parameter) for parameter in model.get_submodule(name).parameters()}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if any(parameters.get(key) is not value for key, value in before.items()):
        raise Missed("replaced", expected="the parameters that were there", got="other objects in their place")
    extra = [key for key in _flagged(model) if id(parameters[key]) not in chosen]
    missing = [key for key, value in parameters.items() if id(value) in chosen and not value.requires_grad]
    if missing:
        names = [key for key, value in parameters.items() if value is parameters[missing[0]]]
        key = "shared" if len(names) > 1 else "not raised"
        raise Missed(key, expected=f"the parameters of {name} flagged", not_flagged=", ".join(missing[:4]))
    if extra:
        if any("requires_grad" in vars(submodule) for submodule in model.modules()):
            key = "attribute"
        elif all("." not in key for key in extra):
            key = "root"
        else:
            alike = all(key.startswith(name) and not key.startswith(f"{name}.") for key in extra)
            key = "prefix" if alike else "rest trains"
        raise Missed(key, expected=f"only the parameters of {name} flagged", flagged_too=", ".join(extra[:4]))
    return result


@finetune_parameters.claim("flags the parameters of the submodule, and no others", weight=2, gate=True)
def _(trial: Trial) -> None:
    for name in ("decoder", "encoder", "decoder.head", "encoder.0", "activation"):
        _judge_flags(trial, _model(trial), name)
    model = _model(trial)
    _judge_flags(trial, model, "encoder")
    _judge_flags(trial, model, "decoder", "finetune_parameters(model, 'decoder') after 'encoder'")


@finetune_parameters.claim("returns a list of them, once each, also where weights are shared", weight=2)
def _(trial: Trial) -> None:
    for tied in (False, True):
        for name in ("decoder", "encoder2", "decoder.head", "activation"):
            model = _model(trial, tied)
            show = f"finetune_parameters(model with shared weights, {name!r})" if tied else ""
            _judge_list(_judge_flags(trial, model, name, show), model, model.get_submodule(name))


def _judge_list(result: Any, model: nn.Module, submodule: nn.Module) -> None:
    expected = list(submodule.parameters())
    if result is None:
        raise Missed("no return value", expected=f"a list of {len(expected)} parameters", got="None")
    if not isinstance(result, list):
        key = "no list" if isinstance(result, Iterator) else ""
        raise Missed(key, expected="a list", got=type(result).__name__)
    if not all(isinstance(value, Tensor) for value in result):
        wrong = next(value for value in result if not isinstance(value, Tensor))
        raise Missed("pairs" if isinstance(wrong, (tuple, str)) else "", expected="parameters", got=wrong)
    got, wanted = [id(value) for value in result], {id(value) for value in expected}
    if set(got) != wanted:
        own = {id(value) for value in model.parameters()}
        if not set(got) <= own:
            key = "replaced"
        elif wanted < set(got):
            key = "everything"
        else:
            key = "shared" if got and len(set(got) & wanted) < len(wanted) else ""
        raise Missed(key, expected=f"the {len(wanted)} parameters of the submodule", got=f"another {len(set(got))}")
    if len(got) != len(wanted):
        raise Missed("twice", expected=f"{len(wanted)} parameters, once each", got=f"{len(got)}")


@finetune_parameters.claim("drops the others' gradients, and leaves the chosen ones'", weight=2)
def _(trial: Trial) -> None:
    for name, tied in (("decoder", True), ("encoder", False), ("decoder.head", False)):
        model = _model(trial, tied)
        model.scale.requires_grad_(False)  # frozen before, its gradient forgotten
        model.encoder[0].bias.grad = model.decoder.hidden.bias.grad = None
        chosen = {id(parameter) for parameter in model.get_submodule(name).parameters()}
        before = {id(parameter): parameter.grad for parameter in model.parameters()}
        values = {key: gradient.clone() for key, gradient in before.items() if gradient is not None}
        _judge_flags(trial, model, name)
        for key, parameter in model.named_parameters():
            gradient = parameter.grad
            if id(parameter) not in chosen:
                if gradient is not None:
                    raise Missed("stale", expected=f"{key}.grad None", got="a gradient" if gradient.any() else "zeros")
            elif (gradient is None) != (before[id(parameter)] is None) or (
                gradient is not None and not torch.equal(gradient, values[id(parameter)])
            ):
                raise Missed("cleared", expected=f"{key}.grad as it was", got=gradient)


@finetune_parameters.claim("leaves parameters, buffers and training flags as they are", weight=0.5)
def _(trial: Trial) -> None:
    model = _model(trial)
    rest = _Rest(model)
    _judge_flags(trial, model, "decoder")
    rest.judge()


# Each of them looks like a submodule to some way of looking names up.
_NO_SUBMODULES = {
    "decodr": "silent",
    "enc": "silent",
    "decoder.body": "silent",
    "": "empty name",
    "decoder.head.weight": "parameter's name",
    "scale": "parameter's name",
    "encoder.1.running_mean": "parameter's name",
    "training": "parameter's name",
}


@finetune_parameters.claim("raises ValueError for a name that is no submodule, names those there are", weight=2)
def _(trial: Trial) -> None:
    for name, misconception in _NO_SUBMODULES.items():
        model = _model(trial)
        before = _state(model)
        try:
            got = _finetune(trial, model, name)
        except AnswerRaised as raised:
            message, kind = str(raised.error), type(raised.error).__name__
            if not isinstance(raised.error, ValueError):
                raise Missed("error type", expected="ValueError", got=f"{kind}: {message[:80]}") from None
        else:
            raise Missed(misconception, expected="ValueError", got=got)
        unnamed = [child for child, _ in model.named_children() if child not in message]
        if unnamed:
            raise Missed("message", expected=f"a message that names {', '.join(unnamed)}", got=message[:120])
        if _state(model) != before:
            raise Missed("half done", expected="a model as it was", got="changed flags or gradients")


def _state(model: nn.Module) -> list[tuple[str, bool, bool, bool]]:
    """Flags, whether there is a gradient, and whether it holds anything: by parameter."""
    return [
        (name, parameter.requires_grad, gradient is not None, gradient is not None and bool(gradient.any()))
        for name, parameter in model.named_parameters()
        for gradient in [parameter.grad]
    ]

"""What several exercises of lesson 05, no_grad, look at."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import AnswerRaised, Missed, Trial, expect, same


def plain_model(trial: Trial, outputs: int = 5) -> nn.Sequential:
    """A model that does the same in both modes. Takes three columns."""
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).double())


def in_eval_mode(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(x.detach())


def _parts(model: nn.Module, tensors: bool) -> dict[tuple[str, ...], Any]:
    """What a model is made of: classes, submodules, settings such as a momentum, and its tensors where asked for."""
    found: dict[tuple[str, ...], Any] = {}
    for name, module in model.named_modules():
        found[name, "class"] = type(module)
        for key, value in vars(module).items():
            if key == "training" or key.endswith("_hooks") or (key in ("_parameters", "_buffers") and not tensors):
                continue
            entries = value.items() if isinstance(value, dict) else [(key, value)]
            found |= {(name, str(entry)): part for entry, part in entries}
    return found


@contextlib.contextmanager
def watch_parts(trial: Trial, models: dict[str, nn.Module], tensors: bool = True) -> Iterator[None]:
    """Notes what the answer took out of a model, put in or exchanged: values alone would not show it."""
    before = {name: _parts(model, tensors) for name, model in models.items()}
    try:
        yield
    finally:
        for name, model in models.items():
            after, kinds = _parts(model, tensors), (bool, int, float, str)
            for place in dict.fromkeys((*before[name], *after)):
                old, new = (parts.get(place, ...) for parts in (before[name], after))
                if old is not new and not (type(old) is type(new) and type(old) in kinds and old == new):
                    what = ".".join(filter(None, place))
                    trial.effects.append(f"took {name} apart: its {what} is new, another one or gone")
                    break


def expect_usable(trial: Trial, model: nn.Module, x: Tensor, expected: Tensor) -> None:
    """The model that the answer was given still does what it did: it is used again."""
    called = trial.called
    again, wanted = (
        f"the model itself, after {called}",
        f"{expected.dtype} on {expected.device}, values as before",
    )
    try:
        got = trial.run(lambda: in_eval_mode(model, x), called=again)
    except AnswerRaised as raised:
        raise Missed("side effect", expected=wanted, got=type(raised.error).__name__) from None
    if (got.dtype, got.device) != (expected.dtype, expected.device):
        raise Missed("side effect", expected=wanted, got=f"{got.dtype} on {got.device}")
    expect(same(got, expected), "side effect", expected=wanted, got="other values")
    trial.called = called  # what the caller looks at next is the answer's result


def call(trial: Trial, model: nn.Module, data: Any, show: str, names: tuple[str, str]) -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was.

    ``names`` are what the contract calls the two arguments: an answer that is wrapped has no names for them.
    """
    with watch_parts(trial, {"the model": model}):
        return trial.run(
            lambda: trial.answer(model, data),
            called=f"{trial.name}({show})",
            watch=dict(zip(names, (model, data), strict=True)),
            watch_training=False,
        )

"""What claims of several lessons expect of the training flags and the grad mode, and which mistake they name.

The misconceptions have the same keys in every lesson that asks for it; they stand in quotes in the docstrings below.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from course_utils.checks.claims import (
    Missed,
    Trial,
    expect,
    expect_error,
    expect_training_flags,
    flag_words,
    training_flags,
)


def expect_grad_mode_kept(trial: Trial) -> None:
    """No call of the answer has changed the grad mode; it was left off ("grad mode"), or switched on ("always on")."""
    changes = _grad_mode_changes(trial)
    key = "always on" if changes and changes[0].endswith("True") else "grad mode"
    expect(not changes, key, expected="the grad mode as before", got=", ".join(changes))


def expect_flags_put_back(model: nn.Module, run: Callable[[nn.Module], object]) -> None:
    """Every submodule's training flag is its own again after a run without an error.

    They may all be off ("left in eval"); the answer may have told parts of the model to train, and these wrote over
    parts of their own ("train spreads"); or it knows of one flag ("one flag").
    """
    before = training_flags(model)
    run(model)
    if training_flags(model) != before:
        again = _with_flags(model, before)
        key = "train spreads" if _tells_parts_to_train(again, run) else "one flag"
        expect_training_flags(model, before, "left in eval", key)


def expect_modes_put_back(
    trial: Trial,
    call: Callable[[nn.Module, Any], object],
    model: nn.Module,
    data: Any,
    good: Any,
    kind: type[Exception],
    key: str = "swallowed",
    flags_alone: bool = False,
) -> None:
    """Where a call raises, the error goes through, and training flags and grad mode are those of before.

    They are not "only without error"; what a call that raises nothing leaves changed, too, is another mistake.

    Args:
        call: calls the answer with a model and data.
        data: what makes the call raise.
        good: data for a call that does not.
        key: the misconception where nothing is raised.
        flags_alone: whether the grad mode is left to another claim.
    """
    before, swallows = training_flags(model), key == "swallowed"
    what = "the error of the batch or the model" if swallows else kind.__name__
    expect_error(kind, lambda: call(model, data), key, what=what, other="" if swallows else None)
    flags, effects, called = training_flags(model), trial.effects, trial.called
    if flags == before and (flags_alone or not _grad_mode_changes(trial)):
        return
    trial.effects = []
    try:
        expect_flags_put_back(_with_flags(model, before), lambda model: call(model, good))
        expect_grad_mode_kept(trial)
    finally:
        trial.effects = effects
    trial.called = called
    got = ", ".join([flag_words(flags), *_grad_mode_changes(trial)])
    raise Missed("only without error", expected=f"{flag_words(before)}, the grad mode as before", got=got)


def _grad_mode_changes(trial: Trial) -> list[str]:
    return [effect for effect in trial.effects if "grad mode" in effect]


def _with_flags(model: nn.Module, flags: list[bool]) -> nn.Module:
    """A copy of the model, in other modes."""
    twin = copy.deepcopy(model)
    for module, flag in zip(twin.modules(), flags, strict=True):
        module.training = flag
    return twin


def _tells_parts_to_train(model: nn.Module, run: Callable[[nn.Module], object]) -> bool:
    """Whether ``train()`` is called for a part of the model, and not for the whole."""
    within, parts, train = list[nn.Module](), list[nn.Module](), nn.Module.train

    def noted(module: nn.Module, mode: bool = True) -> nn.Module:
        if mode and module is not model and not within:
            parts.append(module)
        within.append(module)
        try:
            return train(module, mode)
        finally:
            within.pop()

    with _replaced(nn.Module, "train", noted):
        run(model)
    return bool(parts)


@contextlib.contextmanager
def _replaced(owner: type, name: str, value: object) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def why_recorded(records: Callable[[bool], bool]) -> str:
    """Why an answer records, told apart by one more run with another model and data.

    Args:
        records: whether the answer records: given False, plain data through a model that learns; given True, data
            that requires grad through a frozen one.

    Returns:
        "bare no_grad" where it makes a switch that it neither enters nor wraps around anything; "data cleaned" where
        what it does to the data stops the recording in a frozen model; else an empty text.
    """
    made, used = list[object](), list[object]()
    places = [(torch.utils._contextlib._DecoratorContextManager, "__call__", used)]
    for switch in (torch.no_grad, torch.inference_mode):
        places += [(switch, "__init__", made), (switch, "__enter__", used)]
    with contextlib.ExitStack() as stack:
        for owner, name, notes in places:
            stack.enter_context(_replaced(owner, name, _noting(vars(owner)[name], notes)))
        records(False)
    if {*map(id, made)} - {*map(id, used)}:
        return "bare no_grad"
    return "" if records(True) else "data cleaned"


def _noting(method: Callable[..., Any], notes: list[object]) -> Callable[..., Any]:
    def noted(self: object, *args: Any, **kwargs: Any) -> Any:
        notes.append(self)
        return method(self, *args, **kwargs)

    return noted

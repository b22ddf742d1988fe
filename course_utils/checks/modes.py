"""What claims of several lessons expect of the training flags and the grad mode, and which mistake they name.

The misconceptions have the same keys in every lesson that asks for it; they stand in quotes in the docstrings below.
"""

import contextlib
import copy
import sys
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from course_utils.base.torch_private import DecoratorContextManager
from course_utils.checks.claims import (
    Missed,
    ModeRoll,
    Trial,
    changed_flags,
    expect,
    expect_raises,
    expect_training_flags,
    training_flags,
)
from course_utils.checks.state import replaced


def mixed_mode_model(trial: Trial, training: bool, other: int) -> nn.Sequential:
    """A model from three columns to five whose values tell the modes apart at three places, and at two depths.

    Its submodule number ``other``, from 1 to 3, is in another mode than the rest.
    """
    norm = nn.BatchNorm1d(8)
    last = nn.Sequential(nn.Tanh(), nn.Linear(8, 5), ModeRoll())
    model = nn.Sequential(nn.Linear(3, 8), norm, ModeRoll(), last).double().train(training)
    trial.fill(model)
    for statistic, values in ((norm.running_mean, trial.randn(8)), (norm.running_var, trial.randn(8).abs() + 0.5)):
        cast(torch.Tensor, statistic).copy_(values)
    model[other].training = not training
    return model


def expect_grad_mode_kept(trial: Trial) -> None:
    """No call of the answer has changed the grad mode; it was left off ("grad mode"), or switched on ("always on")."""
    changes = _grad_mode_changes(trial)
    key = "always on" if changes and changes[0].endswith("True") else "grad mode"
    expect(not changes, key, expected="the grad mode as before", got=", ".join(changes))


def expect_flags_put_back(trial: Trial, run: Callable[[nn.Module], object]) -> None:
    """Every submodule's training flag is its own again after a run of the answer without an error.

    They may all be off ("left in eval"), or wrong below the direct children alone ("children"); the answer may have
    told parts of the model to train, and these wrote over parts of their own ("train spreads"), or over one alone that
    stands in two places ("parents first"); or it knows of one flag ("one flag"), or switches training on whatever was
    on before ("was in training").
    """
    for training, other in ((True, 1), (False, 3), (True, 2)):
        _expect_flags_put_back(trial, mixed_mode_model(trial, training, other), run)
    _expect_shared_part_put_back(mixed_mode_model(trial, True, 1), run)


def _expect_shared_part_put_back(model: nn.Module, run: Callable[[nn.Module], object]) -> None:
    _append_shared_part(model)
    before = training_flags(model)
    run(model)
    expect_training_flags(model, before, "parents first")


def _append_shared_part(model: nn.Module) -> None:
    """One part in two places, in another mode than they: whoever writes through a place writes over the part."""
    shared = nn.Identity()
    cast(nn.Sequential, model).extend(nn.Sequential(shared).eval() for _ in range(2))
    shared.train()


def _expect_flags_put_back(trial: Trial, model: nn.Module, run: Callable[[nn.Module], object]) -> None:
    before, outer = training_flags(model), [model, *model.children()]
    flags = [module.training for module in outer]
    run(model)
    if training_flags(model) != before:
        again = _with_flags(model, before)
        off = _with_flags(model, [False] * len(before))
        run(off)
        key = "was in training" if off.training else "one flag"
        key = "train spreads" if _tells_parts_to_train(trial, again, run) else key
        key = "children" if [module.training for module in outer] == flags else key
        expect_training_flags(model, before, "left in eval", key)


def expect_modes_put_back(
    trial: Trial,
    call: Callable[[nn.Module, Any], object],
    model: nn.Module,
    data: Any,
    good: Any,
    key: str = "swallowed",
    flags_alone: bool = False,
) -> None:
    """Where a call raises, the caller gets an error, and training flags and grad mode are those of before.

    Where they are not, the answer puts them back "only without error". Whether it puts them back at all is looked at
    first, in a call that raises nothing: an answer that never does is told that.

    Args:
        call: calls the answer with a model and data.
        model: a ``Sequential``; it gets a part that stands in two places.
        data: what makes the call raise.
        good: data for a call that does not.
        key: the misconception where nothing is raised; but for "swallowed", it has to be a ValueError.
        flags_alone: whether the grad mode is left to another claim.
    """
    without = copy.deepcopy(model)
    _append_shared_part(model)
    before = training_flags(model)
    kind, what = (Exception, "an error") if key == "swallowed" else (ValueError, "")
    expect_raises(kind, lambda: call(model, data), key, what=what)
    flags, effects, called = training_flags(model), trial.effects, trial.called
    if flags == before and (flags_alone or not _grad_mode_changes(trial)):
        return
    trial.effects = []
    try:
        _expect_flags_put_back(trial, copy.deepcopy(without), lambda model: call(model, good))
        _expect_shared_part_put_back(without, lambda model: call(model, good))
        expect_grad_mode_kept(trial)
    except Missed as missed:
        # All in eval mode, unlike after a call without an error: what would have been put back was not.
        if flags == before or any(flags) or missed.misconception == "left in eval":
            raise
    finally:
        trial.effects = effects
    trial.called = called
    (then, now), changes = changed_flags(model, before), _grad_mode_changes(trial)
    trial.effects = [effect for effect in effects if effect not in changes]  # told here
    expected = ", ".join([then] * bool(then) + ["the grad mode as before"] * bool(changes))
    raise Missed("only without error", expected=expected, got=", ".join([now] * bool(now) + changes))


def _grad_mode_changes(trial: Trial) -> list[str]:
    return [effect for effect in trial.effects if "grad mode" in effect]


def _with_flags(model: nn.Module, flags: list[bool]) -> nn.Module:
    """A copy of the model, in other modes."""
    twin = copy.deepcopy(model)
    for module, flag in zip(twin.modules(), flags, strict=True):
        module.training = flag
    return twin


def _tells_parts_to_train(trial: Trial, model: nn.Module, run: Callable[[nn.Module], object]) -> bool:
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

    with replaced(nn.Module, "train", noted):
        run(model)
    return bool(parts)


def why_recorded(trial: Trial, records: Callable[[bool], bool]) -> str:
    """Why an answer records, told apart by what it calls in one more run, and by a run with other inputs.

    Args:
        records: whether the answer records: given False, plain data through a model that learns; given True, data
            that requires grad through a frozen one.

    Returns:
        "bare no_grad" where it makes a switch that it neither enters nor wraps around anything; "detached" where it
        detaches what has been recorded; "data cleaned" where what it does to the data stops the recording in a frozen
        model; "elsewhere" where it enters a switch, around other lines; "eval alone" where it calls ``eval()``; and
        "recorded" where it does nothing of the kind.
    """
    made, used, told, calls = list[object](), list[object](), list[object](), _Detached()
    places = [(DecoratorContextManager, "__call__", used), (nn.Module, "eval", told)]
    for switch in (torch.no_grad, torch.inference_mode):
        places += [(switch, "__init__", made), (switch, "__enter__", used)]
    with contextlib.ExitStack() as stack:
        for owner, name, notes in places:
            stack.enter_context(replaced(owner, name, _noting(vars(owner)[name], notes)))
        stack.enter_context(calls)
        records(False)
    if {*map(id, made)} - {*map(id, used)}:
        return "bare no_grad"
    if calls.found:
        return "detached"
    if not records(True):
        return "data cleaned"
    return "elsewhere" if used else "eval alone" if told else "recorded"


def _noting(method: Callable[..., Any], notes: list[object]) -> Callable[..., Any]:
    def noted(self: object, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals["__name__"]
        if not caller.startswith(("course_utils.", "torch.nn.")):  # what the check does, and making a layer
            notes.append(self)
        return method(self, *args, **kwargs)

    return noted


class _Detached(TorchFunctionMode):
    """Finds out whether a tensor with history is detached."""

    found = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        names = ("detach", "detach_", "data")
        name = getattr(function, "__name__", "")
        name = getattr(function.__self__, "__name__", "") if name == "__get__" else name
        self.found |= bool(name in names and args and args[0].grad_fn is not None)
        return function(*args, **kwargs or {})

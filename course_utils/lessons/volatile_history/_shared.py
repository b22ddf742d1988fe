"""What several exercises of lesson 04, volatile_history, look at."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks import modes
from course_utils.checks.claims import AnswerRaised, Missed, Trial, expect_training_flags, training_flags, unlucky


def plain_model(trial: Trial, *after: nn.Module) -> nn.Sequential:
    """A model that does the same in both modes; one of its parameters is frozen, and stays so."""
    model = trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6), *after).double())
    model[0].bias.requires_grad = False
    return model


def draw_batches(trial: Trial, *sizes: int) -> list[Tensor]:
    return [trial.randn(size, 3) for size in sizes]


def outputs_in_eval_mode(model: nn.Module, batches: Iterable[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        twin = copy.deepcopy(model).eval()
        return [twin(x).cpu() for x in batches]


def mixed_mode_cases(trial: Trial) -> Iterator[tuple[nn.Module, list[Tensor], list[Tensor]]]:
    """Models in mixed modes, batches, and their outputs in eval mode."""
    for training, other in ((True, 2), (False, 1)):
        model, batches = modes.mixed_mode_model(trial, training, other), draw_batches(trial, 4, 4)
        yield model, batches, outputs_in_eval_mode(model, batches)


def call(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str = "model, 2 batches") -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was."""
    return trial.call(model, batches, watch_training=False, show=f"{trial.name}({show})")


def records(run: Callable[[], object]) -> bool:
    """Whether a call of the answer has autograd save tensors."""
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda _tensor: saved.append(1), lambda _packed: None):
        run()
    return bool(saved)


def expect_modes_put_back_after_errors(trial: Trial, flags_alone: bool = False) -> None:
    """Where a batch or the model raises, the error goes through, too."""
    good = draw_batches(trial, 4)

    def judge(who: str) -> None:
        is_batch = who == "batch"
        batches = unlucky(good) if is_batch else [*good, trial.randn(4, 2)]
        model = modes.mixed_mode_model(trial, training=is_batch, other=1 if is_batch else 2)
        run = partial(call, trial, show=f"model, 2 batches: the {who} raises at the second one")
        modes.expect_modes_put_back(trial, run, model, batches, good, flags_alone=flags_alone)

    for who, other in (("batch", "model"), ("model", "batch")):
        try:
            judge(who)
        except Missed as missed:
            if missed.misconception != "only without error":
                raise
            called, effects, trial.effects = trial.called, trial.effects, []
            with contextlib.suppress(Missed):
                judge(other)
                missed = Missed("outside the try", **dict(missed.details))  # after the other error, all is well
            trial.called, trial.effects = called, effects
            raise missed from None


def expect_flags_put_back_after_no_batches(trial: Trial) -> None:
    """Whether the answer raises there, and what, has a claim of its own."""
    model = modes.mixed_mode_model(trial, True, 1)
    before = training_flags(model)
    key = ""
    try:
        call(trial, model, [], "model, []")
    except AnswerRaised:
        key = "outside the try"
    expect_training_flags(model, before, key)

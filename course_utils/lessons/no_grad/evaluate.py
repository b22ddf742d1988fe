"""``evaluate``: the accuracy, in eval mode and unrecorded, with both switches put back."""

import torch
from torch import Tensor, nn

from course_utils import evaluating
from course_utils.checks.compare import Seen, Trial, compared, unlucky
from course_utils.lessons.volatile_history.modes import left_by, left_in_both_modes, mixed_model, passes_of

evaluate = compared(__file__, evaluating=evaluating)


def _given(trial: Trial, *sizes: int, training: bool = True) -> tuple[nn.Sequential, list[tuple[Tensor, Tensor]]]:
    """A model, and labels of which every second one is right in eval mode."""
    model = mixed_model(trial, training)
    in_eval_mode = nn.Sequential(model[0], model[2])
    batches = []
    for size in sizes:
        x = trial.randn(size, 3)
        batches.append((x, (in_eval_mode(x).argmax(1) + torch.arange(size) % 2) % 4))
    return model, batches


@evaluate.looks("is the share of right answers", gate=True)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 60, 60)  # so many that two mistakes hardly give one share by chance
    got = trial.call(model.eval(), batches, show="evaluate(model in eval mode, 2 batches of equal size)")
    return {"the accuracy": float(got)}


@evaluate.looks("counts each sample once in batches of different size, and is a float", weight=2)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 8, 1, 4)
    got = trial.call(model.eval(), iter(batches), show="evaluate(model in eval mode, iterator of 8, 1 and 4 samples)")
    return {"the accuracy": float(got), "its type": type(got).__name__}


@evaluate.looks("runs the model in eval mode, and records nothing", weight=8)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 8, 4)
    passes = passes_of(model)
    trial.call(model, batches, watch_training=False, show="evaluate(model in training mode, 2 batches)")
    training, recorded = (any(flags) for flags in zip(*passes, strict=True))
    return {"a layer is in training mode": training, "recorded": recorded}


@evaluate.looks("puts back every submodule's own training flag, and the grad mode", weight=3)
def _(trial: Trial) -> Seen:
    what = "model with parts in both modes, 2 batches"
    yield from left_in_both_modes(trial, lambda training: _given(trial, 8, 4, training=training), what)


@evaluate.looks("puts both back where a batch raises, too, and lets the error through", weight=3)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 8)
    batches.append((trial.randn(4, 2), torch.zeros(4, dtype=torch.long)))
    yield from left_by(trial, model, batches, "model, batches of which the last has a column too few")
    model, batches = _given(trial, 8)
    yield from left_by(trial, model, unlucky(batches), "model, a generator that raises at its second batch")


@evaluate.looks("raises ValueError for no batches, with everything put back")
def _(trial: Trial) -> Seen:
    yield from left_by(trial, mixed_model(trial), iter(()), "model, an empty iterator")

"""``port_evaluation``: a test loop of 0.3 in today's spelling, with every training flag put back."""

from contextlib import contextmanager

from torch import Tensor, nn

from course_utils.checks.claims import unlucky
from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.volatile_history._shared import left_by, mixed_model

port_evaluation = compared(__file__, contextmanager=contextmanager)


def _given(trial: Trial, *sizes: int) -> tuple[nn.Sequential, list[Tensor]]:
    return mixed_model(trial), [trial.randn(size, 3) for size in sizes]


@port_evaluation.looks("returns a list with one output for each batch", gate=True)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 4, 2, 5)
    got = trial.call(model.eval(), batches, show="port_evaluation(model in eval mode, 3 batches)")
    return {"a list": isinstance(got, (list, tuple)), "the outputs": got}


@port_evaluation.looks("returns outputs without history, and records nothing on the way", weight=8)
def _(trial: Trial) -> Seen:
    (model, batches), recorded = _given(trial, 4, 4), list[bool]()
    for part in model.modules():  # on each part: an answer may run a copy of the model
        part.register_forward_hook(lambda _module, _inputs, output: recorded.append(output.requires_grad))
    outputs = trial.call(model.eval(), batches, show="port_evaluation(model in eval mode, 2 batches)")
    yield "requires grad, each output", [trial.tensor(output).requires_grad for output in outputs]
    yield "recorded in the model", any(recorded)


@port_evaluation.looks("computes them in eval mode", weight=5)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 4, 4)
    model.training = False
    shown = "port_evaluation(model with parts in training mode, 2 batches)"
    yield "the outputs", trial.call(model, batches, watch_training=False, show=shown)
    model, batches = _given(trial, 4, 4)
    shown = "port_evaluation(model in training mode, 2 batches)"
    yield "the outputs", trial.call(model, batches, watch_training=False, show=shown)


@port_evaluation.looks("puts back every submodule's own training flag, and the grad mode", weight=4)
def _(trial: Trial) -> Seen:
    for training, recording in ((True, True), (False, False)):
        model, batches = mixed_model(trial, training), [trial.randn(4, 3)]
        shown = f"port_evaluation(model with parts in both modes, 1 batch){', under no_grad' * (not recording)}"
        yield from left_by(trial, model, batches, shown, recording)


@port_evaluation.looks("puts them back where a batch raises, too, and lets the error through", weight=4)
def _(trial: Trial) -> Seen:
    model, batches = _given(trial, 4)
    batches.append(trial.randn(4, 2))
    yield from left_by(trial, model, batches, "port_evaluation(model, batches of which the last has a column too few)")
    model, batches = _given(trial, 4)
    yield from left_by(trial, model, unlucky(batches), "port_evaluation(model, a generator that raises)")

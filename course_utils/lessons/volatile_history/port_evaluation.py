"""``port_evaluation``: a test loop of 0.3 in today's spelling, with every training flag put back."""

from contextlib import contextmanager

from course_utils.checks.compare import Raised, Seen, Trial, compared, outcome, unlucky
from course_utils.lessons.volatile_history import modes

port_evaluation = compared(__file__, contextmanager=contextmanager)


@port_evaluation.looks("returns a list with one output for each batch", gate=True)
def _(trial: Trial) -> Seen:
    model, batches = modes.with_batches(trial, 4, 2, 5)
    got = trial.call(model.eval(), batches, show="port_evaluation(model in eval mode, 3 batches)")
    return {"the type of the result": type(got).__name__, "the outputs": got}


@port_evaluation.looks("returns outputs without history, and records nothing on the way", weight=8)
def _(trial: Trial) -> Seen:
    model, batches = modes.with_batches(trial, 4, 4)
    passes = modes.passes_of(model)
    outputs = trial.call(model.eval(), batches, show="port_evaluation(model in eval mode, 2 batches)")
    yield "requires grad, each output", [trial.tensor(output).requires_grad for output in outputs]
    yield "recorded in the model", any(recorded for _, recorded in passes)


@port_evaluation.looks("brings them to the CPU, and gives an empty list for no batches", weight=2)
def _(trial: Trial) -> Seen:
    model, batches = modes.with_batches(trial, 4)
    yield "outputs of no batches", trial.call(model.eval(), [], show="port_evaluation(model, [])")
    model.register_forward_hook(lambda module, args, output: output.to("meta"))  # to compute there loads the compiler
    ended = outcome(lambda: trial.run(lambda: trial.answer(model, batches), called="port_evaluation(model on meta)"))
    left = [] if isinstance(ended, Raised) else [output.device.type for output in ended]  # meta has no way to the CPU
    yield "outputs that are left where they were computed", left


@port_evaluation.looks("computes them in eval mode", weight=5)
def _(trial: Trial) -> Seen:
    for training, what in ((False, "model with parts in training mode"), (True, "model in training mode")):
        model, batches = modes.with_batches(trial, 4, 4)
        model.training = training
        passes, shown = modes.passes_of(model), f"port_evaluation({what}, 2 batches)"
        yield "the outputs", trial.call(model, batches, watch_training=False, show=shown)
        yield "a part is in training mode", any(training for training, _ in passes)


@port_evaluation.looks("puts back every submodule's own training flag, and the grad mode", weight=4)
def _(trial: Trial) -> Seen:
    what = "model with parts in both modes, 1 batch"
    yield from modes.left_in_both_modes(trial, lambda training: modes.with_batches(trial, 4, training=training), what)


@port_evaluation.looks("puts them back where a batch raises, too, and lets the error through", weight=4)
def _(trial: Trial) -> Seen:
    model, batches = modes.with_batches(trial, 4)
    batches.append(trial.randn(4, 2))
    yield from modes.left_by(trial, model, batches, "model, batches of which the last has a column too few")
    model, batches = modes.with_batches(trial, 4)
    yield from modes.left_by(trial, model, unlucky(batches), "model, a generator that raises")

"""Lesson 04, the history of volatile: its exercises, what they claim, and the misconceptions that they recognise."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Unlucky, expect_training_flags, same, training_flags
from course_utils.checks.exercise import Exercise, Misconception, Missed, Predict, Trial, normal_value
from course_utils.checks.trial import AnswerRaised
from course_utils.memory import MemoryTracker

# ----------------------------------------------------------------------------------------------------- volatile_rule

volatile_rule = Exercise(
    name="volatile_rule",
    points=2,
    hints=(
        "Work out the two flags one after the other. Which of them has to be known before the other can be?",
        "Both flags ask whether *any* input has them. Python's `any` says False for an empty list, which is what you "
        "need.",
        "Flagged and volatile at once is a state that does not exist. Where the two rules collide, volatile stays.",
    ),
    misconceptions={
        "both up": Misconception(
            "Each flag spreads by itself",
            "Then a result could be flagged and volatile at once. A volatile result has no history, so it cannot "
            "require grad.",
            "Try one flagged and one volatile input.",
        ),
        "all volatile": Misconception(
            "A result is volatile only if all its inputs are",
            "Then every parameter of a model would have had to be volatile, too. One input was enough: that was the "
            "point of the flag.",
            "Run `torch03.Variable(x, volatile=True)` through a model with flagged parameters, and print the result.",
        ),
        "flag wins": Misconception(
            "A flagged input protects the result from volatile",
            "It is the other way round: one volatile input wins against any number of flagged ones.",
            "Multiply a flagged `torch03.Variable` by a volatile one, and print the result.",
        ),
        "today": Misconception(
            "volatile has no effect",
            "That is so today. In 0.3 the flag took hold of every result on its way.",
            "Read the flags of `weight * weight * weight * volatile` in the lesson.",
        ),
        "all flagged": Misconception(
            "A result is flagged only if all its inputs are",
            "One flagged input is enough, in 0.3 as today: a layer's weights are flagged and its data is not.",
            "Try one flagged and one plain input, without a volatile one.",
        ),
        "one input": Misconception(
            "The first input decides",
            "All inputs have a say, wherever they stand: `weight * volatile` and `volatile * weight` have the same "
            "flags.",
            "Call your function with the same pairs in another order.",
        ),
        "not flagged": Misconception(
            "Unflagged is another word for volatile",
            "A plain tensor is neither. It lets a flagged neighbour have its graph; a volatile one does not.",
            "Try two inputs that are `(False, False)`.",
        ),
        "swapped": Misconception(
            "The order in the pair does not matter",
            "The pair is `(requires_grad, volatile)`, in the result as in the inputs.",
            "Call your function with one flagged input, and look at the first value.",
        ),
        "empty": Misconception(
            "Every operation has an input",
            "`torch.zeros(3)` has none. Nothing was flagged and nothing was volatile, so the result is neither.",
            "Call your function with an empty list.",
        ),
    },
)

_PLAIN, _FLAGGED, _VOLATILE = (False, False), (True, False), (False, True)
_Pairs = list[tuple[bool, bool]]


def _rule(pairs: _Pairs) -> tuple[bool, bool]:
    # compute_flags in tools/autograd/templates/VariableType.cpp of 0.3.
    volatile = any(pair[1] for pair in pairs)
    return any(pair[0] for pair in pairs) and not volatile, volatile


def _most_are_volatile(pairs: _Pairs) -> bool:
    return 2 * sum(pair[1] for pair in pairs) > len(pairs)


# What somebody with a misconception would compute, for lists that are not empty.
_BELIEFS: tuple[tuple[str, Callable[[_Pairs], tuple[bool, bool]]], ...] = (
    ("both up", lambda pairs: (any(r for r, _ in pairs), any(v for _, v in pairs))),
    ("all volatile", lambda pairs: (any(r for r, _ in pairs), all(v for _, v in pairs))),
    (
        "all volatile",
        lambda pairs: (any(r for r, _ in pairs) and not _most_are_volatile(pairs), _most_are_volatile(pairs)),
    ),
    ("flag wins", lambda pairs: (any(r for r, _ in pairs), any(v for _, v in pairs) and not any(r for r, _ in pairs))),
    ("today", lambda pairs: (any(r for r, _ in pairs), False)),
    ("all flagged", lambda pairs: (all(r for r, _ in pairs), any(v for _, v in pairs))),
    ("one input", lambda pairs: pairs[0]),
    ("one input", lambda pairs: pairs[-1]),
    ("not flagged", lambda pairs: (any(r for r, _ in pairs), not any(r for r, _ in pairs))),
    ("not flagged", lambda pairs: (all(r for r, _ in pairs), not all(r for r, _ in pairs))),
    ("swapped", lambda pairs: _rule(pairs)[::-1]),
)


def _pairs(trial: Trial, states: tuple[tuple[bool, bool], ...], must: tuple[tuple[bool, bool], ...] = ()) -> _Pairs:
    """Some pairs in random order: of each state in ``must`` one at least, the others of any in ``states``."""
    pairs = [*must, *(states[trial.integer(0, len(states) - 1)] for _ in range(trial.integer(4, 8)))]
    return [pairs.pop(trial.integer(0, len(pairs) - 1)) for _ in range(len(pairs))]


def _flags(trial: Trial, pairs: _Pairs) -> tuple[bool, bool]:
    result = trial.call(list(pairs), show=f"volatile_rule({pairs})")
    if result is None:
        raise Missed("no return value", expected="a pair (requires_grad, volatile)", got="None")
    try:
        flags = normal_value(result)
    except TypeError:
        flags = None
    if not isinstance(flags, tuple) or len(flags) != 2 or not all(isinstance(flag, bool) for flag in flags):
        raise Missed(expected="a pair (requires_grad, volatile) of True or False", got=result)
    return flags


def _belief(trial: Trial, pairs: _Pairs) -> str:
    """The misconception whose results the answer gives throughout; empty where none fits."""
    samples = [pairs, [_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED], [_FLAGGED, _PLAIN], [_PLAIN, _FLAGGED]]
    samples += [[_PLAIN, _VOLATILE, _FLAGGED], [_VOLATILE, _PLAIN], [_PLAIN, _PLAIN], [_VOLATILE], [_FLAGGED]]
    samples += [_pairs(trial, (_PLAIN, _FLAGGED, _VOLATILE), must=(_PLAIN,)) for _ in range(6)]
    try:
        given = [_flags(trial, sample) for sample in samples]
    except (AnswerRaised, Missed):
        return ""
    for key, belief in _BELIEFS:
        if given == [belief(sample) for sample in samples]:
            return key
    return ""


def _mismatch(expected: tuple[bool, bool], got: tuple[bool, bool]) -> str:
    """The misconception that one wrong result hints at."""
    if expected == _VOLATILE:
        return {(True, True): "both up", _FLAGGED: "flag wins", _PLAIN: "all volatile"}.get(got, "")
    return "all flagged" if expected == _FLAGGED and got == _PLAIN else ""


def _expect_rule(trial: Trial, pairs: _Pairs, look_at: slice) -> None:
    expected, got = _rule(pairs), _flags(trial, pairs)
    if got[look_at] != expected[look_at]:
        called = trial.called
        key = _belief(trial, pairs) or _mismatch(expected, got)
        trial.called = called  # the card shows the call that failed first
        raise Missed(key, expected=str(expected), got=str(got))


@volatile_rule.claim("flags the result where one input at least is flagged and none is volatile")
def _(trial: Trial) -> None:
    for pairs in ([_FLAGGED], [_PLAIN, _FLAGGED], [_FLAGGED, _PLAIN], [_PLAIN, _PLAIN]):
        _expect_rule(trial, pairs, slice(0, 2))
    for _ in range(6):
        _expect_rule(trial, _pairs(trial, (_PLAIN, _FLAGGED), must=(_FLAGGED, _PLAIN)), slice(0, 2))


@volatile_rule.claim("makes it volatile as soon as one input is")
def _(trial: Trial) -> None:
    for _ in range(6):
        _expect_rule(trial, _pairs(trial, (_PLAIN, _FLAGGED, _VOLATILE), must=(_VOLATILE, _PLAIN)), slice(1, 2))


@volatile_rule.claim("leaves a volatile result unflagged, against any number of flagged inputs", weight=2)
def _(trial: Trial) -> None:
    for pairs in ([_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED]):
        _expect_rule(trial, pairs, slice(0, 2))
    for _ in range(6):
        _expect_rule(trial, _pairs(trial, (_FLAGGED, _PLAIN), must=(_VOLATILE, _FLAGGED, _FLAGGED)), slice(0, 2))


@volatile_rule.claim("gives `(False, False)` for no inputs")
def _(trial: Trial) -> None:
    # A constant earns nothing here.
    for pairs in ([_VOLATILE], [_FLAGGED]):
        _expect_rule(trial, pairs, slice(0, 2))
    try:
        got = _flags(trial, [])
    except AnswerRaised as raised:
        raise Missed("empty", expected="(False, False)", raised=type(raised.error).__name__) from None
    if got != (False, False):
        raise Missed("empty", expected="(False, False)", got=str(got))


# ------------------------------------------------------------------------------------------- models in several modes


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _plain_model(trial: Trial, *after: nn.Module) -> nn.Sequential:
    """A model that does the same in both modes."""
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6), *after).double())


def _moody_model(trial: Trial, training: bool, other: int) -> nn.Sequential:
    """A model that tells the modes apart by its values; one submodule is in another mode than the rest.

    Args:
        trial: draws its parameters and statistics.
        training: the mode of the model and all but one of its submodules.
        other: the index of the one.
    """
    norm = nn.BatchNorm1d(8)
    parts = (nn.Linear(3, 8), norm, nn.Dropout(0.5), nn.Sequential(nn.Tanh(), nn.Linear(8, 4)))
    model = trial.fill(nn.Sequential(*parts).double())
    with torch.no_grad():
        norm.running_mean.copy_(trial.randn(8))
        norm.running_var.copy_(trial.randn(8).abs() + 0.5)
    model.train(training)
    model[other].training = not training
    return model


def _expected(model: nn.Module, batches: Iterable[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        twin = copy.deepcopy(model).eval()
        return [twin(x).cpu() for x in batches]


def _batches(trial: Trial, *sizes: int) -> list[Tensor]:
    return [trial.randn(size, 3) for size in sizes]


def _call(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was."""
    return trial.call(model, batches, watch_training=False, show=f"{trial.name}({show})")


def _expect_modes_after_errors(trial: Trial) -> None:
    """The submodules' flags are put back, and the error goes through, where a batch raises."""

    def unlucky() -> Iterator[Tensor]:
        yield from _batches(trial, 4)
        raise Unlucky("this batch cannot be read")

    wrong_width = [*_batches(trial, 4), trial.randn(4, 2)]
    cases = (
        (unlucky(), Unlucky, "the second batch raises", (True, 1)),
        (wrong_width, RuntimeError, "the model raises at the second batch", (False, 2)),
    )
    for batches, kind, show, moods in cases:
        model = _moody_model(trial, *moods)
        before = training_flags(model)
        try:
            _call(trial, model, batches, f"model, batches: {show}")
        except AnswerRaised as raised:
            if not isinstance(raised.error, kind):
                expected = "the error of the batch" if kind is Unlucky else "the error of the model"
                raise Missed(expected=expected, got=type(raised.error).__name__) from None
        else:
            raise Missed("swallowed", expected="the error goes through to the caller", got="no error")
        expect_training_flags(model, before, "only without error")


_SHARED_MISCONCEPTIONS = {
    "len": Misconception(
        "Every iterable has a length and an index",
        "A generator makes its batches one by one. It does not know how many there will be, and none can be picked "
        "out.",
        "Call your function with `iter(batches)`.",
    ),
    "no eval": Misconception(
        "Without gradients a model is in eval mode",
        "These are two switches. Recording on or off says nothing about dropout and batch norm: they look at each "
        "submodule's `training` flag, and in training mode batch norm even learns from what you test on.",
        "Call the model twice on one batch, inside your function, and compare the outputs.",
    ),
    "one flag": Misconception(
        "One flag describes the whole model",
        "Each submodule has its own `training` flag, and they may differ: a frozen batch norm stays in eval mode while "
        "the rest trains. `train()` and `eval()` write one value over all of them.",
        "Put one submodule in eval mode, call your function, and print `training` of every module.",
    ),
    "left in eval": Misconception(
        "Whoever trains next will call train()",
        "The caller's model comes back in eval mode: dropout and batch norm stay off in the rest of the training, and "
        "nothing says so.",
        "Print `model.training` before and after.",
    ),
    "only without error": Misconception(
        "The lines after the loop always run",
        "Where a batch raises, they do not. The caller who catches the error has a model in the wrong mode.",
        "Let the second batch raise, catch the error, and print the flags.",
    ),
    "swallowed": Misconception(
        "A batch that fails can be skipped",
        "What the model or a batch raises is the caller's to handle. Skipped in silence, the result is that of other "
        "data.",
        "Take out the `except`, or let it raise again.",
    ),
    "frozen": Misconception(
        "To stop the recording, lower the flags of the parameters",
        "It does stop it, and it changes the caller's model: the next training step finds nothing to train.",
        "Leave the parameters alone, and switch the mode in which operations run.",
    ),
    "grad mode": Misconception(
        "A plain set_grad_enabled call ends with the function",
        "As a plain call it sets the mode of the whole thread, until somebody sets it again. To set it to True at the "
        "end is no better: the caller may have had it off.",
        "Call your function inside `torch.no_grad()` and outside, and print `torch.is_grad_enabled()` after each.",
    ),
}
_EFFECTS = (("requires_grad", "frozen"), ("grad mode", "grad mode"))
_RAISES = (("has no len()", "len"), ("has no attribute '__len__'", "len"), ("is not subscriptable", "len"))

# --------------------------------------------------------------------------------------------------- port_evaluation

port_evaluation = Exercise(
    name="port_evaluation",
    points=3,
    hints=(
        "Three things in the old loop have no counterpart under the same name: the wrapper, the flag, and a `train()` "
        "that puts everything back.",
        "Write down `training` of every module before you call `eval()`, and write it back at the end. What must run "
        "whatever happens stands in a `finally`.",
        "The switch has to be on while the model computes. `with` puts back what it found, also when something raises.",
    ),
    misconceptions={
        "volatile": Misconception(
            "volatile=True still saves memory",
            "Since 0.4 the flag gives a warning and does nothing else. Every output of the loop hangs on its graph.",
            "Print `grad_fn` of an output.",
        ),
        "recorded": Misconception(
            "In eval mode nothing is recorded",
            "`eval()` changes what dropout and batch norm do. Operations on flagged parameters are recorded as before; "
            "so they are after a `torch.no_grad()` on a line of its own, which switches nothing.",
            "Print `torch.is_grad_enabled()` on the line before the model is called.",
        ),
        "stacked": Misconception(
            "One tensor of all outputs is the same",
            "The caller asked for one output a batch. Joined, they cannot be told apart again.",
            "Compare the length of what you return with the number of batches.",
        ),
        "last": Misconception(
            "The loop keeps all outputs by itself",
            "A name holds one object. What is not put into the list is gone at the next turn.",
            "Compare the length of what you return with the number of batches.",
        ),
    }
    | _SHARED_MISCONCEPTIONS,
    raises=(*_RAISES, ("stack expects each tensor", "stacked")),
    effects=_EFFECTS,
)


def _outputs(trial: Trial, model: nn.Module, batches: Iterable[Tensor], count: int, show: str = "") -> list[Tensor]:
    result = _call(trial, model, batches, show or f"model, {count} batches")
    if result is None:
        raise Missed("no return value", expected=f"a list of {count} tensors", got="None")
    if isinstance(result, Tensor):
        key = "last" if count > 1 and len(result) == 4 else "stacked"
        raise Missed(key, expected=f"a list of {count} tensors", got="one tensor")
    if not isinstance(result, list):
        raise Missed(expected=f"a list of {count} tensors", got=result)
    if len(result) != count:
        raise Missed("last" if count else "", expected=f"{count} outputs", got=f"{len(result)} outputs")
    return [trial.tensor(value) for value in result]


@port_evaluation.claim("returns a list with one output a batch, in their order", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _plain_model(trial)
    batches = _batches(trial, trial.integer(2, 3), 7, trial.integer(5, 6), 4)
    expected = _expected(model, batches)
    for given in (batches, iter(batches)):
        for got, wanted in zip(_outputs(trial, model, given, len(batches)), expected, strict=True):
            if got.shape != wanted.shape:
                raise Missed(expected=f"an output of shape {tuple(wanted.shape)}", got=f"shape {tuple(got.shape)}")
            if not same(got.cpu(), wanted):
                raise Missed(expected="the model's outputs, batch by batch", got="other values")


@port_evaluation.claim("returns an empty list for no batches", weight=0.5)
def _(trial: Trial) -> None:
    _outputs(trial, _plain_model(trial), [], 0, show="model, []")


def _expect_no_history(outputs: list[Tensor], warned: bool) -> None:
    for got in outputs:
        if got.requires_grad:
            history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
            raise Missed("volatile" if warned else "recorded", expected="no history", got=history)


@port_evaluation.claim("returns outputs without history, on the CPU")
def _(trial: Trial) -> None:
    model = _plain_model(trial).to(_device())
    batches = [x.to(_device()) for x in _batches(trial, 3, 5)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = _outputs(trial, model, batches, 2)
    _expect_no_history(outputs, any("volatile was removed" in str(warning.message) for warning in caught))
    for got in outputs:
        if got.device.type != "cpu":
            raise Missed(expected="an output on the CPU", got=f"one on {got.device}")


@port_evaluation.claim("leaves the grad mode as it found it, on or off")
def _(trial: Trial) -> None:
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            show = "model, 2 batches" if enabled else "model, 2 batches, called inside no_grad"
            outputs = _outputs(trial, _plain_model(trial), _batches(trial, 3, 5), 2, show=show)
        if any("grad mode" in effect for effect in trial.effects):
            raise Missed("grad mode", expected=f"the grad mode {enabled}, as before", got=f"{not enabled}")
        # Leaving the mode alone earns nothing where the outputs were to have no history.
        _expect_no_history(outputs, warned=False)


@port_evaluation.claim("computes them in eval mode", gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2)):
        model = _moody_model(trial, training, other)
        batches = _batches(trial, 5, 3)
        expected = _expected(model, batches)
        for got, wanted in zip(_outputs(trial, model, iter(batches), 2), expected, strict=True):
            if not same(got.cpu(), wanted):
                raise Missed("no eval", expected="the values of eval mode", got="other values")


@port_evaluation.claim("puts back every submodule's own training flag")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2), (True, 3)):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        _outputs(trial, model, _batches(trial, 4, 3), 2)
        expect_training_flags(model, before)


@port_evaluation.claim("puts back flags and grad mode where a batch raises, and lets the error through")
def _(trial: Trial) -> None:
    _expect_modes_after_errors(trial)
    if any("grad mode" in effect for effect in trial.effects):
        raise Missed("only without error", expected="the grad mode as before", got="another grad mode")


# ------------------------------------------------------------------------------------------------ bounded_evaluation

bounded_evaluation = Exercise(
    name="bounded_evaluation",
    points=3,
    hints=(
        "What has to be alive after a batch, so that the mean over everything can be worked out at the end?",
        "A sum over the samples, and their number. Both have the same size after one batch as after a thousand.",
        "Record nothing, and switch that on before the model runs: a graph that is thrown away at once has been alive "
        "all the same. Then think of no batches, and of a batch that raises.",
    ),
    misconceptions={
        "mean of means": Misconception(
            "The mean of the batch means is the mean",
            "Only if all batches have the same size. Otherwise the samples of a small batch count for more.",
            "Try two batches of 1 and 9 samples, and work it out by hand.",
        ),
        "sum": Misconception(
            "The sum will do",
            "The contract asks for the mean: divide by the number of samples, not of batches, and not by nothing.",
            "Call your function with one batch, and compare with its mean.",
        ),
        "last": Misconception(
            "The last batch stands for all",
            "The mean is over all samples of all batches. What a loop does not add up is gone at the next turn.",
            "Print the mean of each batch beside what you return.",
        ),
        "one number": Misconception(
            "mean() is the mean over the samples",
            "Without a dimension it runs over everything: samples and features alike. One sample's output has a shape, "
            "and the mean has the same.",
            "Print the shape of `model(x)`, and of its `mean()`.",
        ),
        "kept dimension": Misconception(
            "A batch of one sample is a sample",
            "One sample's output has no batch dimension, and the mean over the samples has none either.",
            "Print the shape of `model(x)[0]`.",
        ),
        "history": Misconception(
            "A mean is only numbers",
            "It is a tensor, and it remembers all that it was computed from: every graph of every batch.",
            "Print `grad_fn` of what you return.",
        ),
        "graphs": Misconception(
            "What is cut off at the end was never there",
            "The result is clean. Until you cut it, the sum or the list led to the graph of every batch.",
            "Watch the bytes inside the loop instead of after it.",
        ),
        "recorded": Misconception(
            "detach() makes a forward pass cheap",
            "It cuts a graph that has been recorded already. While the model ran, everything that it saved for "
            "backward was alive.",
            "Compare the peak of `model(x).detach()` with that of the same call under `no_grad`.",
        ),
        "outputs kept": Misconception(
            "Outputs without history cost nothing",
            "They cost their own bytes. A list of them grows with the number of batches.",
            "Ask what you need of an output once its batch is done.",
        ),
        "batches kept": Misconception(
            "Reading the batches into a list costs nothing",
            "A list keeps every batch alive until the function ends, whatever the loop itself needs.",
            "Take one batch a turn and let it go.",
        ),
        "one big batch": Misconception(
            "All batches at once is the same work",
            "The result is the same. The activations of all batches are alive together.",
            "Let the model see one batch at a time.",
        ),
        "sums kept": Misconception(
            "One small tensor a batch does not count",
            "It does not look like much, and it grows without end: after a million batches it is the largest thing "
            "there.",
            "Add up as you go.",
        ),
        "copied": Misconception(
            "A copy of the model is the easy way to keep its modes",
            "The copy has parameters of its own, and their bytes are alive on top of everything else.",
            "Write down the flags: a list of bools takes no tensor memory.",
        ),
        "empty": Misconception(
            "No batches: the mean takes care of itself",
            "A mean over nothing is no tensor. Returned as nan, 0 or None it travels on; a ValueError says where it "
            "happened.",
            "Call your function with an empty list.",
        ),
    }
    | _SHARED_MISCONCEPTIONS,
    raises=_RAISES,
    effects=_EFFECTS,
)


def _mean(outputs: list[Tensor]) -> Tensor:
    return torch.cat(outputs).mean(0)


def _mean_output(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Tensor:
    return trial.tensor(_call(trial, model, batches, show))


# Shapes of one sample's output: a vector, a matrix, a number.
_ENDINGS: tuple[Callable[[], tuple[nn.Module, ...]], ...] = (
    lambda: (),
    lambda: (nn.Unflatten(1, (2, 3)),),
    lambda: (nn.Linear(6, 1), nn.Flatten(0)),
)


@bounded_evaluation.claim("is the mean over all samples, in the shape of one sample's output", weight=0, gate=True)
def _(trial: Trial) -> None:
    for ending in _ENDINGS:
        model = _plain_model(trial, *ending())
        batches = _batches(trial, trial.integer(1, 2), trial.integer(8, 10), trial.integer(3, 5))
        outputs = _expected(model, batches)
        wanted = _mean(outputs)
        for given in (batches, iter(batches)):
            got = _mean_output(trial, model, given, "model, batches of different size").cpu()
            if same(got, wanted):
                continue
            means = torch.stack([output.mean(0) for output in outputs])
            guesses = (
                ("mean of means", means.mean(0)),
                ("sum", _mean(outputs) * sum(map(len, batches))),
                ("sum", _mean(outputs) * sum(map(len, batches)) / len(batches)),
                ("sum", means.sum(0)),
                ("sum", _mean(outputs) * sum(map(len, batches)) / len(batches[-1])),
                ("kept dimension", wanted.unsqueeze(0)),
                ("last", outputs[-1].mean(0)),
                ("last", outputs[-1]),
                ("one number", torch.cat(outputs).mean()),
            )
            key = next((key for key, value in guesses if same(got, value)), "")
            if got.shape != wanted.shape:
                shapes = {"expected": f"shape {tuple(wanted.shape)}", "got": f"shape {tuple(got.shape)}"}
                raise Missed(key or ("one number" if not got.dim() else ""), **shapes)
            first = {"expected": f"{wanted.flatten()[0]:.6f}", "got": f"{got.detach().flatten()[0]:.6f}"}
            raise Missed(key, **first)


@bounded_evaluation.claim("has no history")
def _(trial: Trial) -> None:
    got = _mean_output(trial, _plain_model(trial), _batches(trial, 4, 4), "model, 2 batches")
    if got.requires_grad:
        history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
        raise Missed("history", expected="no history", got=history)


# Sizes that tell by the growth what is kept. Four hidden layers: recorded, they are alive together, else two at a time.
_ROWS, _INPUTS, _HIDDEN, _OUTPUTS = 16, 4, 64, 8
_BATCH_BYTES, _OUTPUT_BYTES = _ROWS * _INPUTS * 8, _ROWS * _OUTPUTS * 8
# A Python float a batch in a tensor is no leak: 16 bytes of growth a batch are left alone.
_GROWTH_BYTES = 16
_BUDGET = 1.25


def _deep_model(trial: Trial) -> nn.Sequential:
    widths = (_INPUTS, _HIDDEN, _HIDDEN, _HIDDEN, _HIDDEN)
    hidden = [layer for i, o in pairwise(widths) for layer in (nn.Linear(i, o), nn.Tanh())]
    return trial.fill(nn.Sequential(*hidden, nn.Linear(_HIDDEN, _OUTPUTS)).double())


def _stream(trial: Trial, count: int) -> Iterator[Tensor]:
    for _ in range(count):
        yield trial.randn(_ROWS, _INPUTS)


def _peak(trial: Trial, model: nn.Module, count: int) -> int:
    tracker = MemoryTracker(model)
    result = trial.call(
        model,
        _stream(trial, count),
        may_change=(model,),
        within=tracker,
        show=f"bounded_evaluation(model, {count} batches)",
    )
    trial.tensor(result)
    return tracker.peak


def _reference_peak(trial: Trial, model: nn.Module) -> int:
    """The peak of one batch under ``no_grad``, the batch itself included."""
    with MemoryTracker(model) as tracker, torch.no_grad():
        for x in _stream(trial, 1):
            model(x)
    return tracker.peak


def _records(trial: Trial, model: nn.Module) -> bool:
    """Whether the answer has autograd save tensors."""
    saved = []

    def note(tensor: Tensor) -> int:
        saved.append(1)
        return 0

    called = trial.called
    with torch.autograd.graph.saved_tensors_hooks(note, lambda packed: None):
        trial.call(model, _stream(trial, 2), may_change=(model,))
    trial.called = called
    return bool(saved)


@bounded_evaluation.claim("needs no more bytes at its peak for 9 batches than for 3", weight=3)
def _(trial: Trial) -> None:
    model = _deep_model(trial)
    few, many = _peak(trial, model, 3), _peak(trial, model, 9)
    growth = (many - few) / 6
    if growth <= _GROWTH_BYTES:
        return
    one_pass = _reference_peak(trial, model)
    if growth > 2 * _OUTPUT_BYTES and _records(trial, model):
        key = "graphs"
    elif growth > 0.8 * one_pass:
        key = "one big batch"
    elif growth >= _OUTPUT_BYTES:
        key = "outputs kept"
    else:
        key = "batches kept" if growth >= _BATCH_BYTES else "sums kept"
    raise Missed(
        key,
        expected="the same peak for 3 and for 9 batches",
        got=f"{format_bytes(few)}, then {format_bytes(many)}: {format_bytes(round(growth))} more a batch",
    )


@bounded_evaluation.claim("stays under 1.25 times the peak of one batch under `no_grad`", weight=3)
def _(trial: Trial) -> None:
    model = _deep_model(trial)
    budget, peak = _BUDGET * _reference_peak(trial, model), _peak(trial, model, 3)
    if peak < budget:
        return
    parameter_bytes = sum(parameter.nbytes for parameter in model.parameters())
    if _records(trial, model):
        key = "recorded"
    elif peak >= parameter_bytes:
        key = "copied"
    else:
        key = "one big batch" if peak > 2 * budget else "outputs kept"
    raise Missed(key, expected=f"under {format_bytes(round(budget))}", got=format_bytes(peak))


@bounded_evaluation.claim("raises ValueError for no batches")
def _(trial: Trial) -> None:
    for empty in ([], iter([])):
        try:
            got = _call(trial, _plain_model(trial), empty, "model, []")
        except AnswerRaised as raised:
            if isinstance(raised.error, ValueError):
                continue
            raise Missed("empty", expected="ValueError", got=type(raised.error).__name__) from None
        raise Missed("empty", expected="ValueError", got=got)


@bounded_evaluation.claim("is computed in eval mode", gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2)):
        model = _moody_model(trial, training, other)
        batches = _batches(trial, 5, 3)
        wanted = _mean(_expected(model, batches))
        if not same(_mean_output(trial, model, iter(batches), "model in training mode, 2 batches").cpu(), wanted):
            raise Missed("no eval", expected="the mean in eval mode", got="another mean")


@bounded_evaluation.claim("puts back every submodule's own training flag, also where something raises")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 2), (True, 3)):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        _mean_output(trial, model, _batches(trial, 4, 3), "model, 2 batches")
        expect_training_flags(model, before)
    _expect_modes_after_errors(trial)
    model = _moody_model(trial, True, 1)
    before = training_flags(model)
    with contextlib.suppress(AnswerRaised):  # which error it is has a claim of its own
        _call(trial, model, [], "model, []")
    expect_training_flags(model, before, "only without error")


# -------------------------------------------------------------------------------------------------- predicted_growth

# The lesson's own: 20 batches of 50 rows in float32, Linear(32, 100), ReLU, Linear(100, 4).
_COUNT, _BATCH_ROWS = 20, 50
_GRAPH = _BATCH_ROWS * 100 * 4  # the result of ReLU, which is the second Linear's input as well
_OUTPUT = _BATCH_ROWS * 4 * 4
_INPUT = _BATCH_ROWS * 32 * 4


def _growth_model(trial: Trial) -> nn.Module:
    return trial.fill(nn.Sequential(nn.Linear(32, 100), nn.ReLU(), nn.Linear(100, 4)))


def _held(trial: Trial) -> dict[str, int]:
    model = _growth_model(trial)
    batches = [trial.randn(_BATCH_ROWS, 32, dtype=torch.float32) for _ in range(_COUNT)]
    unrecorded = torch.no_grad()(model.forward)
    loops: dict[str, Callable[[Tensor], object]] = {
        "outputs": lambda x: model(x),
        "detached": lambda x: model(x).detach(),
        "floats": lambda x: model(x).sum().item(),
        "outputs_no_grad": unrecorded,
    }
    held = {}
    for key, take in loops.items():
        with MemoryTracker(model, batches) as mem:
            kept = [take(x) for x in batches]
            held[key] = mem.current
        del kept
    return held


def _whole_bytes(value: Any) -> int:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if hasattr(value, "item"):
        value = value.item()  # NumPy's numbers
    if isinstance(value, (int, float)) and float(value).is_integer():
        return int(value)
    raise TypeError("a whole number of bytes")


predicted_growth = Predict(
    name="predicted_growth",
    points=2,
    truth=_held,
    keys=("outputs", "detached", "floats", "outputs_no_grad"),
    normal=_whole_bytes,
    hints=(
        "Bytes of a tensor: rows times columns times 4 for float32. Work out one batch of each loop, then 20.",
        "An output with history keeps itself, and what the nodes behind it have saved. `ReLU` saves its own result; "
        "the second `Linear` saves its input, which is that same tensor. A tensor counts once.",
        "The batches and the parameters were there before the loop, so they do not count. Draw `model(batches[0])` "
        "with `plot_graph` and read the bytes in the boxes.",
    ),
    misconceptions={
        "numbers only": Misconception(
            "A kept output costs its own bytes",
            "Its own, and those of everything that its graph has saved for backward.",
            "Ask `graph_memory` what one output keeps.",
        ),
        "output forgotten": Misconception(
            "Only what backward needs is kept",
            "That is the larger part. The outputs themselves are in the list, too.",
            "Add the bytes of the output to those of its graph.",
        ),
        "last only": Misconception(
            "Each turn of the loop replaces what the last one left",
            "A name that is rebound lets go. A list does not: it holds all 20.",
            "Count what can be reached when the loop is over.",
        ),
        "every step": Misconception(
            "Every layer keeps its result",
            "What is kept is what a backward formula needs. Nothing needs the result of the first `Linear` once `ReLU` "
            "has run, and the result of `ReLU` is one tensor, however many nodes have saved it.",
            "Draw the graph of one output and look which boxes hold bytes.",
        ),
        "inputs counted": Misconception(
            "A graph makes copies of what it saves",
            "It holds the tensors themselves. The batches existed before the loop, so keeping them costs nothing new.",
            "Ask `graph_memory` which bytes variables hold, too.",
        ),
        "detach": Misconception(
            "A detached output still keeps its graph",
            "`detach()` gives a tensor that leads nowhere. The output that led to the graph has no name any more, so "
            "it goes, and its graph with it.",
            "Print `grad_fn` of what is in the list.",
        ),
        "no backward": Misconception(
            "Without backward nothing is ever freed",
            "Under `no_grad` there is nothing to free: no graph is recorded. And a graph that is recorded goes with "
            "the last reference to it, backward or not.",
            "Ask `graph_memory` for an output made under `no_grad`: read its error.",
        ),
        "weightless": Misconception(
            "Tensors without history take no memory",
            "Without history they keep nothing beside themselves. Their own values have to be somewhere.",
            "Print `nbytes` of one output.",
        ),
        "floats": Misconception(
            "A Python float is a small tensor",
            "`.item()` leaves torch. A float is an object of Python: no storage, no history, no tensor bytes.",
            "Print the type of what `.item()` gives.",
        ),
        "arithmetic": Misconception(
            "Roughly is good enough for bytes",
            "The count is exact: elements times 4 bytes for float32, for each tensor that is kept, times 20 batches.",
            "Work out one tensor by hand and compare with its `nbytes`.",
        ),
    },
    readings={
        ("outputs", _COUNT * _OUTPUT): "numbers only",
        ("outputs", _COUNT * _GRAPH): "output forgotten",
        ("outputs", _GRAPH + _OUTPUT): "last only",
        ("outputs", _GRAPH): "last only",
        ("outputs", _OUTPUT): "last only",
        ("outputs", _COUNT * (2 * _GRAPH + _OUTPUT)): "every step",
        ("outputs", _COUNT * (3 * _GRAPH + _OUTPUT)): "every step",
        ("outputs", _COUNT * (_INPUT + _GRAPH + _OUTPUT)): "inputs counted",
        ("outputs", _COUNT * (_INPUT + 2 * _GRAPH + _OUTPUT)): "inputs counted",
        ("outputs", 0): "weightless",
        ("outputs", ...): "arithmetic",
        ("detached", _COUNT * (_GRAPH + _OUTPUT)): "detach",
        ("detached", _COUNT * _GRAPH): "detach",
        ("detached", _OUTPUT): "last only",
        ("detached", 0): "weightless",
        ("detached", ...): "arithmetic",
        ("floats", ...): "floats",
        ("outputs_no_grad", _COUNT * (_GRAPH + _OUTPUT)): "no backward",
        ("outputs_no_grad", _COUNT * _GRAPH): "no backward",
        ("outputs_no_grad", _OUTPUT): "last only",
        ("outputs_no_grad", 0): "weightless",
        ("outputs_no_grad", ...): "arithmetic",
    },
)

EXERCISES = (volatile_rule, port_evaluation, bounded_evaluation, predicted_growth)

"""Asks for a test loop of 0.3 in today's spelling; the check looks at outputs, history, modes and flags."""

import warnings
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from course_utils.checks import modes
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, expect, expect_no_history, expect_same
from course_utils.lessons.volatile_history import _shared

port_evaluation = exercise(__file__)


def _outputs(
    trial: Trial, model: nn.Module, batches: Iterable[Tensor], count: int, show: str = "", short: str = "last"
) -> list[Tensor]:
    result = _shared.call(trial, model, batches, show or f"model, {count} batches")
    expected = f"a list of {count} tensors"
    expect(result is not None, "no return value", expected=expected, got="None")
    if isinstance(result, Tensor):
        key = "last" if count > 1 and result.shape[:1] == (4,) else "stacked"
        raise Missed(key, expected=expected, got="one tensor")
    is_list = isinstance(result, (list, tuple))  # a tuple is judged by a claim of its own
    expect(is_list, "generator" if hasattr(result, "__next__") else "", expected=expected, got=result)
    key = "rows" if len(result) > count else short
    expect(len(result) == count, key, expected=f"{count} outputs", got=f"{len(result)} outputs")
    return [trial.tensor(value) for value in result]


@port_evaluation.claim("returns a list with one output per batch, in their order", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _shared.plain_model(trial)
    batches = _shared.draw_batches(trial, trial.integer(2, 3), 7, trial.integer(5, 6), 4)
    expected = _shared.outputs_in_eval_mode(model, batches)
    for got, wanted in zip(_outputs(trial, model, batches, 4), expected, strict=True):
        expect_same(got.cpu(), wanted, what=f"the model's output of shape {tuple(wanted.shape)}, batch by batch")


@port_evaluation.claim("takes any iterable of batches, one that can be gone through once, too", weight=0.5)
def _(trial: Trial) -> None:
    model, batches = _shared.plain_model(trial), _shared.draw_batches(trial, 3, 5)
    outputs = _outputs(trial, model, iter(batches), 2, "model, iter(batches)", short="read twice")
    for got, wanted in zip(outputs, _shared.outputs_in_eval_mode(model, batches), strict=True):
        expect_same(got.cpu(), wanted, what="the model's outputs, batch by batch")


@port_evaluation.claim("returns a list, an empty one for no batches", weight=0.5)
def _(trial: Trial) -> None:
    result = _shared.call(trial, _shared.plain_model(trial), _shared.draw_batches(trial, 3, 5))
    expect(isinstance(result, list), "no list", expected="a list", got=type(result).__name__)
    try:
        _outputs(trial, _shared.plain_model(trial), [], 0, show="model, []")
    except AnswerRaised as raised:
        raise Missed("refused", expected="[]", got=type(raised.error).__name__) from None


def _is_recorded(trial: Trial, frozen: bool) -> bool:
    """Whether the outputs have a history; a frozen model gets batches that require grad."""
    model = _shared.plain_model(trial).requires_grad_(not frozen)
    batches = [x.requires_grad_(frozen) for x in _shared.draw_batches(trial, 3, 5)]
    return any(got.grad_fn is not None for got in _outputs(trial, model, batches, 2))


def _expect_no_history(trial: Trial, got: Tensor, key: str = "") -> None:
    if got.grad_fn is not None:
        key = key or modes.why_recorded(trial, lambda frozen: _is_recorded(trial, frozen))
    expect_no_history(got, key)


@port_evaluation.claim("returns outputs on the CPU", weight=0.25)
def _(trial: Trial) -> None:
    # Of tensors on the device meta nothing can come to the CPU: to ask for it raises, and not to ask for it does not.
    model, batches = _shared.plain_model(trial).to("meta"), [x.to("meta") for x in _shared.draw_batches(trial, 3, 5)]
    model.forward = lambda x: x.flatten(1)  # a process's first computation on meta loads the compiler: seconds
    show = "port_evaluation(model on meta, 2 batches)"
    try:
        result = trial.call(model, batches, may_change=(model, *batches), show=show)
    except AnswerRaised:
        return
    left = [output for output in result if isinstance(output, Tensor) and output.device.type == "meta"]
    expect(not left, "device", expected="an error: nothing on meta can be brought to the CPU", got="outputs on meta")


@port_evaluation.claim("returns outputs without history, on the CPU, and records nothing on the way", weight=5.25)
def _(trial: Trial) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batches = [x.to(device) for x in _shared.draw_batches(trial, 3, 5)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = _outputs(trial, _shared.plain_model(trial).to(device), batches, 2)
    warned = any("volatile was removed" in str(warning.message) for warning in caught)
    for got in outputs:
        _expect_no_history(trial, got, "volatile" if warned else "")
        expect(got.device.type == "cpu", expected="an output on the CPU", got=f"one on {got.device}")
    model, batches = _shared.plain_model(trial), _shared.draw_batches(trial, 3, 5)
    recorded = _shared.records(lambda: _outputs(trial, model, batches, 2))
    expect(not recorded, "detached", expected="nothing recorded", got="autograd saved tensors for backward")


@port_evaluation.claim("leaves the grad mode as it found it, on or off, with outputs that have no history")
def _(trial: Trial) -> None:
    for enabled, show in ((True, "model, 2 batches"), (False, "model, 2 batches, called inside no_grad")):
        with torch.set_grad_enabled(enabled):
            outputs = _outputs(trial, _shared.plain_model(trial), _shared.draw_batches(trial, 3, 5), 2, show)
        modes.expect_grad_mode_kept(trial)
        for got in outputs:  # leaving the mode alone earns nothing where the outputs were to have no history
            _expect_no_history(trial, got)


@port_evaluation.claim("returns outputs of the dtype that the model gives them", weight=0.25)
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        model, batches = _shared.plain_model(trial).to(dtype), [x.to(dtype) for x in _shared.draw_batches(trial, 3, 5)]
        for got in _outputs(trial, model, batches, 2, f"model, 2 batches in {dtype}"):
            expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))


@port_evaluation.claim("computes them in eval mode", gate=True)
def _(trial: Trial) -> None:
    for model, batches, expected in _shared.mixed_mode_cases(trial):
        for got, wanted in zip(_outputs(trial, model, batches, 2), expected, strict=True):
            expect_same(got.cpu(), wanted, what="the values of eval mode", key="no eval")


@port_evaluation.claim("puts back every submodule's own training flag", weight=3)
def _(trial: Trial) -> None:
    modes.expect_flags_put_back(trial, lambda model: _outputs(trial, model, _shared.draw_batches(trial, 4, 3), 2))


@port_evaluation.claim(
    "puts back every training flag, and a mode that was on, where a batch raises, and lets the error through", weight=3
)
def _(trial: Trial) -> None:
    _shared.expect_modes_put_back_after_errors(trial)

"""``hard_gate``: what it claims."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial

hard_gate = exercise(__file__)


def _logits(trial: Trial) -> Iterator[Tensor]:
    # Not too near to 0: tiny logits have a claim of their own.
    for shape in ((trial.integer(40, 60),), (6, trial.integer(3, 5)), ()):
        values = trial.randn(*shape) * 2
        yield values + values.sign() * 0.01
    values = trial.randn(30, dtype=torch.float32) * 3
    yield values + values.sign() * 0.01


def _gate(trial: Trial, logit: Tensor) -> Tensor:
    got = trial.tensor(trial.call(logit), shape=logit.shape)
    if got.dtype != logit.dtype:
        key = "dtype" if got.is_floating_point() else "comparison"
        raise Missed(key, expected=str(logit.dtype), got=str(got.dtype))
    return got


@hard_gate.claim("is 1 where the logit is positive and 0 where it is negative", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        expected = (values > 0).to(values.dtype)
        for logit in (values.clone(), values.clone().requires_grad_()):
            got = _gate(trial, logit).detach()
            if torch.allclose(got, expected, atol=1e-3):
                continue
            wrong = (got - expected).abs().flatten().argmax()
            number, wanted, given = (t.flatten()[wrong].item() for t in (values, expected, got))
            key = "soft" if ((got >= 0) & (got <= 1)).all() else ""
            if torch.allclose(got, expected + values.sigmoid(), atol=1e-3):
                key = "added"
            if ((got == 0) | (got == 1)).all():
                key = "sampled"
            raise Missed(key, expected=f"{wanted:g} for logit {number:.4g}", got=f"{given:.4g}")


def _judge_gradient(trial: Trial, values: Tensor) -> None:
    logit = values.clone().requires_grad_()
    source = logit * 1  # an inner tensor, so that a fresh leaf in the answer is told from a path to the logit
    got = _gate(trial, source)
    if got.grad_fn is None:
        key = "fresh leaf" if got.requires_grad else "comparison"
        raise Missed(key, expected="a path to the logit", got="no grad_fn")
    upstream = trial.randn(*values.shape, dtype=values.dtype).abs() + 0.5
    try:
        (gradient,) = torch.autograd.grad(got, logit, upstream, allow_unused=True)
    except RuntimeError as error:
        key = "saved output" if "modified by an inplace" in str(error) else "comparison"
        raise Missed(key, expected="a gradient", got=f"RuntimeError: {str(error)[:90]}") from None
    if gradient is None:
        raise Missed("fresh leaf", expected="a path to the logit", got="none")
    wide = values.double()
    # In float32, 1 - sigmoid(8) has lost four digits, and each formula loses others: hence float64, and 1e-6.
    s, slope = (t.to(values.dtype) for t in (wide.sigmoid(), wide.sigmoid() * (-wide).sigmoid()))
    near = 1e-9 if values.dtype == torch.float64 else 1e-6
    if torch.allclose(gradient, upstream * slope, rtol=1e-4, atol=near):
        return
    if gradient.isnan().any():
        key = "by hand"
    else:
        hard = (values > 0).to(values.dtype)
        patterns = (
            ("zero gradient", torch.zeros_like(slope)),
            ("identity", upstream),
            ("upstream", slope),
            ("doubled", 2 * upstream * slope),
            ("scaled", upstream * slope * hard),
            ("scaled", upstream * slope * hard / s),
        )
        key = next((key for key, pattern in patterns if torch.allclose(gradient, pattern, rtol=1e-4, atol=near)), "")
    at = (gradient - upstream * slope).abs().nan_to_num(float("inf")).flatten().argmax()
    number, wanted, given = (t.flatten()[at].item() for t in (values, slope, gradient / upstream))
    raise Missed(key, expected=f"the slope {wanted:.4g} at logit {number:.4g}", got=f"{given:.4g}")


@hard_gate.claim("has the gradient of sigmoid(logit)", weight=3, gate=True)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        _judge_gradient(trial, values)


@hard_gate.claim("has it also for very large and very small logits", weight=0.5)
def _(trial: Trial) -> None:
    _judge_gradient(trial, torch.cat((torch.tensor([1000.0, -1000.0, 50.0, -50.0]).double(), trial.randn(3))))


@hard_gate.claim("is exactly 0 or 1")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32):
        values = trial.randn(400, dtype=dtype) * 3
        values = values + values.sign() * 0.01
        got = _gate(trial, values.clone().requires_grad_()).detach()
        wrong = got != (values > 0).to(dtype)
        if wrong.any():
            raise Missed("order", expected="exactly 0 or 1", got=f"{got[wrong][0].item():.17g}")


@hard_gate.claim("is open for the smallest positive logit, and closed at 0")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32):
        tiny = torch.tensor([1e-30, -1e-30, 1e-18, -1e-18], dtype=dtype)
        values = torch.cat((tiny, torch.tensor([0.0, -0.0], dtype=dtype), trial.randn(2, dtype=dtype)))
        got = _gate(trial, values.clone().requires_grad_()).detach()
        for number, given in zip(values.tolist(), got.tolist(), strict=True):
            if abs(given - (number > 0)) > 1e-3:
                key = "at zero" if number == 0 else "sigmoid first"
                raise Missed(key, expected=f"{float(number > 0):g} for logit {number:.4g}", got=f"{given:.4g}")

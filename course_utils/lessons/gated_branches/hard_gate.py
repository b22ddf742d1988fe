"""Asks for a gate of 0 and 1 with the gradient of a sigmoid; the check looks at values and slopes at many logits."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_utils.base.torch_private import BackwardCFunction
from course_utils.checks.claims import Lazy, Missed, Trial, exercise, expect, gradient, reading
from course_utils.graph.recorded import nodes_behind
from course_utils.lessons.gated_branches._shared import edited_gradient, expect_shape

hard_gate = exercise(__file__)


def _off_zero(values: Tensor) -> Tensor:
    """Not too near to 0: tiny logits have a claim of their own."""
    return values + values.sign() * 0.01


def _logits(trial: Trial) -> Iterator[Tensor]:
    """Up to 8, and with it: a logit that is clamped further out has a claim of its own."""
    for shape in ((trial.integer(40, 60),), (6, trial.integer(3, 5)), ()):
        yield _off_zero(trial.randn(*shape) * 2).clamp(-8, 8)
    drawn = _off_zero(trial.randn(30, dtype=torch.float32) * 3).clamp(-8, 8)
    yield torch.cat((drawn, torch.tensor([8.0, -8.0])))


@hard_gate.claim("is near 1 where the logit is well above 0, and near 0 where it is well below", weight=0, gate=True)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        expected = (values > 0).to(values.dtype)
        for logit in (values.clone(), values.clone().requires_grad_()):
            got = trial.tensor(trial.call(logit)).detach()
            expect_shape(got, logit.shape)
            expect(got.is_floating_point(), "comparison", expected=str(logit.dtype), got=str(got.dtype))
            got = got.to(logit.dtype)  # a gate in float32 is told first whether it learns
            if torch.allclose(got, expected, atol=1e-3):
                continue
            wrong = (got - expected).abs().flatten().argmax()
            number, wanted, given = (t.flatten()[wrong].item() for t in (values, expected, got))
            key = "soft" if ((got >= 0) & (got <= 1)).all() else ""
            key = "added" if torch.allclose(got, expected + values.sigmoid(), atol=1e-3) else key
            key = "sampled" if ((got == 0) | (got == 1)).all() else key
            raise Missed(key, expected=f"{wanted:g} for logit {number:.4g}", got=f"{given:.4g}")


_STEPS = {"RoundBackward0", "SignBackward0", "FloorBackward0", "CeilBackward0", "HeavisideBackward0"}


def _zero_gradient(got: Tensor) -> str:
    """Why the gradient is 0 everywhere, by the nodes behind the result."""
    found = list(nodes_behind(got))
    if any(isinstance(node, BackwardCFunction) for node in found):
        return "saved"
    saved = [node._saved_result for node in found if node.name() == "SigmoidBackward0"]
    if any(((output == 0) | (output == 1)).all() for output in saved):
        return "saved output"
    names = {node.name() for node in found}
    return "zero gradient" if names & _STEPS else "cancelled" if names & {"SubBackward0", "NegBackward0"} else ""


def _expect_slope(trial: Trial, values: Tensor, *, handed_on: bool = False) -> None:
    """The gradient is the sigmoid's slope at each logit, times the gradient that comes in where ``handed_on``: a slope
    that is handed on alone has a claim of its own."""
    logit = values.clone().requires_grad_()
    source = logit * 1  # an inner tensor, so that a fresh leaf in the answer is told from a path to the logit
    got = trial.tensor(trial.call(source), shape=source.shape)
    key = "fresh leaf" if got.requires_grad else "comparison"
    expect(got.grad_fn is not None, key, expected="a path to the logit", got="no grad_fn")
    upstream = trial.randn(*values.shape, dtype=got.dtype).abs() + 0.5  # which dtype it has is a claim of its own
    found = edited_gradient(got, logit, upstream, "saved output", "comparison")
    if found is None:
        key = "" if isinstance(got.grad_fn, BackwardCFunction) else "fresh leaf"
        raise Missed(key, expected="a gradient for the logit", got="none")
    wide = values.double()
    # In float32, 1 - sigmoid(8) has lost four digits, and each formula loses others: hence float64, and 1e-6.
    s, slope = (t.to(values.dtype) for t in (wide.sigmoid(), wide.sigmoid() * (-wide).sigmoid()))
    agree = partial(torch.allclose, rtol=1e-4, atol=1e-9 if got.dtype == torch.float64 else 1e-6)
    upstream = upstream.to(values.dtype)
    right = upstream * slope
    if agree(found, right) or (agree(found, slope) and not handed_on):
        return
    half = right * (values > 0)
    otherwise = {_zero_gradient(got): 0 * right, "identity": upstream, "upstream": slope, "doubled": 2 * right}
    boxes = [values.abs() <= 1, values.abs() <= 0.5, (values > 0) & (values < 1), values > 0]
    others = [1 - values.tanh() ** 2, s, *(box.to(values) for box in boxes), (values.abs() < 3).to(values) / 6]
    readings = [("scaled", half), ("scaled", half / s), ("saved", upstream * values * (1 - values))]
    readings += [("surrogate", upstream * other) for other in others] + [("clamped", right * (found != 0))]
    key = reading(found, [*otherwise.items(), *readings], agree)
    key = "by hand" if found.isnan().any() else key
    if not key and (evenly := gradient(got, logit)) is not None and (evenly == evenly.max()).all():
        raise Missed("no slope", expected="a slope that depends on the logit", got="one gradient at all logits")
    at = (found - right).abs().nan_to_num(torch.inf).flatten().argmax()
    if key == "upstream":
        number, coming, wanted, given = (t.flatten()[at].item() for t in (values, upstream, right, found))
        expected = f"{wanted:.4g} at logit {number:.4g}, where {coming:.4g} comes in"
        raise Missed(key, expected=expected, got=f"{given:.4g}")
    number, wanted, given = (t.flatten()[at].item() for t in (values, slope, found / upstream))
    raise Missed(key, expected=f"the slope {wanted:.4g} at logit {number:.4g}", got=f"{given:.4g}")


@hard_gate.claim("has the slope of sigmoid(logit)", weight=3, gate=True)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        _expect_slope(trial, values)


@hard_gate.claim("hands on that slope times the gradient that comes in", weight=3)
def _(trial: Trial) -> None:
    for values in _logits(trial):
        _expect_slope(trial, values, handed_on=True)


@hard_gate.claim("has the slope also for very large and very small logits", weight=0.5)
def _(trial: Trial) -> None:
    _expect_slope(trial, torch.cat((torch.tensor([1000.0, -1000.0, 50.0, -50.0]).double(), trial.randn(3))))
    # The slope there is 2e-11, which s·(1 - s) still gives to five digits.
    logit = torch.tensor([24.5, -24.5], dtype=torch.float64, requires_grad=True)
    got = trial.tensor(trial.call(logit), shape=logit.shape)
    slope = gradient(got, logit)
    expected = logit.sigmoid() * (-logit).sigmoid()
    is_right = slope is not None and torch.allclose(slope, expected, rtol=1e-3, atol=0.0)
    shown = Lazy(lambda: "none" if slope is None else f"{slope[0].item():.3g}")
    key = "clamped" if got.dtype == logit.dtype else "dtype"
    expect(is_right, key, expected=f"the slope {expected[0].item():.3g} at logit 24.5", got=shown)


@hard_gate.claim("is exactly 0 or 1")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        values = torch.cat((torch.tensor([0.0, -0.0]), _off_zero(trial.randn(400) * 3))).to(dtype)
        got = trial.tensor(trial.call(values.clone().requires_grad_()), shape=values.shape).detach()
        got = got.to(dtype)  # in which dtype it comes has a claim of its own
        right = torch.where(values == 0, got > 0, values > 0)  # which of the two it is at 0 has a claim of its own
        wrong = got[got != right]
        half = len(wrong) and ((wrong > 0.1) & (wrong < 0.9)).all()  # elsewhere all that comes so far is near 0 or 1
        key, where = ("half open", " at logit 0") if half else ("order", "")
        expect(not len(wrong), key, expected=f"exactly 0 or 1{where}", got=Lazy(lambda: f"{wrong[0].item():.17g}"))


@hard_gate.claim("is open for the smallest positive logit, and closed at 0")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32):
        tiniest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        special = torch.tensor([1e-30, -1e-30, 1e-18, -1e-18, tiniest, -tiniest, 0.0, -0.0], dtype=dtype)
        values = torch.cat((special, trial.randn(2, dtype=dtype)))
        got = trial.tensor(trial.call(values.clone().requires_grad_()), shape=values.shape).detach()
        for number, given in zip(values.tolist(), got.tolist(), strict=True):
            key = "sigmoid first" if number else "half open" if 0.1 < given < 0.9 else "at zero"
            wanted = f"{float(number > 0):g} for logit {number:.4g}"
            expect(abs(given - (number > 0)) <= 1e-3, key, expected=wanted, got=f"{given:.4g}")


@hard_gate.claim("has the logit's dtype, also where that has 16 bits", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        got = trial.tensor(trial.call(trial.randn(5).to(dtype)), shape=(5,))
        expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))

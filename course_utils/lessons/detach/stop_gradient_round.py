"""``stop_gradient_round``: what it claims."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from course_utils.checks.claims import Calls, Missed, Trial, exercise, expect, gradient, reading

stop_gradient_round = exercise(__file__)


def _numbers(trial: Trial) -> Iterator[Tensor]:
    yield trial.randn(trial.integer(40, 60)) * 3
    yield trial.randn(8, 5, dtype=torch.float32) * 50
    yield trial.randn()
    yield trial.randn(trial.integer(5, 9), dtype=torch.float16) * 20
    yield trial.randn(trial.integer(5, 9), dtype=torch.bfloat16) * 20
    # Halves, zeros, a subnormal number, and numbers so great that a sum with them overflows; last, so that a card shows
    # an ordinary number.
    yield torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 0.0, 5e-324, 1e30, -1.7e308], dtype=torch.float64)


def _equal(got: Tensor, value: Tensor) -> bool:
    return torch.allclose(got, value, rtol=0, atol=0, equal_nan=True)


@stop_gradient_round.claim(
    "rounds numbers of ordinary size that are no halves as `x.round()` does, up to the last digits",
    weight=0,
    gate=True,
    elsewhere=["half up", "order", "float32", "integer", "dtype"],  # the last claim judges halves and exact values
)
def _(trial: Trial) -> None:
    _judge_values(trial, list(_numbers(trial))[:-1])


def _judge_values(trial: Trial, numbers: Iterable[Tensor]) -> None:
    for values in numbers:
        for x in (values.clone(), values.clone().requires_grad_()):
            got = trial.tensor(trial.call(x), shape=x.shape).detach()
            key = "dtype" if got.is_floating_point() else ""
            expect(got.dtype == x.dtype, key, expected=str(x.dtype), got=str(got.dtype))
            if torch.equal(got, values.round()):
                continue
            up = (values + 0.5).floor(), values.sign() * (values.abs() + 0.5).floor()
            otherwise = [("scaled", values * (values.round() / values)), *(("half up", rounded) for rounded in up)]
            otherwise.append(("float32", values.float().round().to(values.dtype)))
            whole = [values.round().to(kind).to(values.dtype) for kind in (torch.int64, torch.int32)]
            otherwise += [("integer", got) for got in (*whole, *(values + (number - values) for number in whole))]
            others = [("cut off", cut) for cut in (values.trunc(), values.floor(), values.ceil())]
            others += [("unassigned", values), ("added", values.round() + values)]
            key = reading(got, otherwise, _equal) or reading(got, others)
            if not key and (torch.allclose(got, values.round(), atol=1e-3) or not got.isfinite().all()):
                key = "order"
            wrong = (got != values.round()).flatten().nonzero()[0]
            number, rounded, given = (t.flatten()[wrong].item() for t in (values, values.round(), got))
            raise Missed(key, expected=f"{rounded:.17g} for x = {number:.17g}", got=f"{given:.17g}")


@stop_gradient_round.claim("passes the gradient on as the identity does", weight=3)
def _(trial: Trial) -> None:
    _judge_gradient(trial)


@stop_gradient_round.claim("does both with exactly the value of `x.round()`, and its dtype", weight=2)
def _(trial: Trial) -> None:
    _judge_gradient(trial)  # the value alone is what `x.round()` has, with which the exercise begins
    _judge_values(trial, _numbers(trial))


def _judge_gradient(trial: Trial) -> None:
    for values in _numbers(trial):
        x = values.clone().requires_grad_()
        source = x * 1  # an inner tensor, so that a fresh leaf in the answer is told from a path to x
        calls = Calls()
        got = trial.tensor(trial.call(source, within=calls), shape=x.shape)
        key = "cut from x" if got.requires_grad else "all detached"
        expect(got.grad_fn is not None, key, expected="a path to x", got="no grad_fn")
        # From the trial: a gradient that torch's own generator draws could be foretold.
        upstream = trial.randn(*values.shape, dtype=values.dtype).abs() + 0.5
        found = gradient(got, x, upstream)
        if found is None:
            raise Missed("cut from x", expected="a path to x", got="none")
        if torch.allclose(found, upstream, rtol=1e-6):
            continue
        zeros, ones = torch.zeros_like(upstream), torch.ones_like(upstream)
        otherwise = {"zero gradient": zeros, "doubled": 2 * upstream, "upstream": ones, "correction": -upstream}
        otherwise["scaled"] = values.round() / values * upstream
        key = reading(found, otherwise, torch.allclose)
        if key == "zero gradient":
            key = "hook" if got._backward_hooks else "cancelled" if "sub" in calls.names else key
        if not key and (found.isclose(upstream) | (found == 0)).all():
            key = "clipped"
        slopes = (found / upstream).flatten()
        place = (slopes - 1).abs().argmax()
        shown = f"{slopes[place]:.4g} at x = {values.flatten()[place]:.4g}"
        if key == "upstream":  # 1 where that is not what comes in
            handed = f"x.grad = {upstream.flatten()[place]:.4g}, the gradient that comes in"
            raise Missed(key, expected=handed, got="x.grad = 1")
        raise Missed(key, expected="d result / d x = 1 everywhere", got=shown)

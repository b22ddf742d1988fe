"""``double``: twice a tensor. The check looks at the values, and at the gradient that comes back."""

import torch

from course_utils.checks.claims import Trial, exercise, expect, gradient, numbers_apart

double = exercise(__file__)


@double.claim("is twice `x`", gate=True)
def _(trial: Trial) -> None:
    for x in (trial.randn(trial.integer(2, 5)), trial.randn(trial.integer(2, 5), 2, requires_grad=True)):
        result = trial.call(x)
        expect(result is not None, "printed", expected="a tensor", got="None")
        got, right = trial.tensor(result, shape=x.shape, dtype=x.dtype).detach(), 2 * x.detach()
        is_square = torch.equal(got, x.detach() ** 2)
        # Where x was edited, its values are put to the test by the last claim.
        holds = not is_square and (bool(trial.effects) or torch.equal(got, right))  # 2 * x is exact
        wanted, number = numbers_apart(got, right)
        expect(holds, "square" if is_square else "", expected=wanted, got=number)
    _expect_kept(trial)


def _expect_kept(trial: Trial) -> None:
    """A tensor without dimensions keeps its shape, and float32 stays float32."""
    results = [trial.tensor(trial.call(trial.randn(dtype=dtype))) for dtype in (torch.float32, torch.float64)]
    shapes, dtypes = {tuple(got.shape) for got in results}, {got.dtype for got in results}
    # A helper of shape (1,) gives both results its own dtype; who reshapes x to (1,) keeps the two dtypes.
    key = "one element" if shapes == {(1,)} and len(dtypes) == 1 else ""
    expect(shapes == {()}, key, expected="shape ()", got=f"shape {max(shapes)}")
    # Not the dtype of a float32 number: torch widens it to that of a 0-dim float64 factor, which leaves vectors alone.
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = trial.randn(*(() if dtype is torch.float64 else (trial.integer(2, 5),)), dtype=dtype)
        got = trial.tensor(trial.call(x), shape=x.shape, dtype=x.dtype).detach()
        holds = bool(trial.effects) or torch.equal(got, 2 * x)
        expect(holds, expected=(2 * x).flatten()[0], got=got.flatten()[0])


@double.claim("stays connected to an `x` that requires grad")
def _(trial: Trial) -> None:
    x = trial.randn(3, requires_grad=True)
    found = gradient(trial.tensor(trial.call(x)), x)
    twos = torch.full_like(x, 2)
    holds = found is not None and torch.equal(found, twos)
    key = "half cut" if found is not None and torch.equal(found, torch.ones_like(x)) else "cut"
    expect(holds, key, expected="the gradient 2 for x", got="none" if found is None else numbers_apart(found, twos)[1])

"""``double``: twice a tensor. The check looks at the values, and at the gradient that comes back."""

import torch

from course_utils.checks.claims import Trial, exercise, expect, gradient

double = exercise(__file__)


@double.claim("is twice `x`", gate=True)
def _(trial: Trial) -> None:
    for x in (trial.randn(trial.integer(2, 5)), trial.randn(trial.integer(2, 5), 2, requires_grad=True)):
        result = trial.call(x)
        expect(result is not None, "printed", expected="a tensor", got="None")
        got, right = trial.tensor(result, shape=x.shape, dtype=x.dtype).detach(), 2 * x.detach()
        is_square = torch.equal(got, x.detach() ** 2)
        # Where x was edited, its values are put to the test by the last claim.
        holds = not is_square and (bool(trial.effects) or torch.allclose(got, right))
        expect(holds, "square" if is_square else "", expected=right.flatten()[0], got=got.flatten()[0])


@double.claim("stays connected to an `x` that requires grad")
def _(trial: Trial) -> None:
    x = trial.randn(3, requires_grad=True)
    found = gradient(trial.tensor(trial.call(x)), x)
    holds = found is not None and torch.equal(found, torch.full_like(x, 2))
    expect(holds, "cut", expected="the gradient 2 for x", got=found)

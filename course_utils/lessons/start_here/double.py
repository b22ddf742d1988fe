"""``double``: twice a tensor. The check looks at the values, and at the gradient that comes back."""

import torch

from course_utils.checks.claims import Trial, exercise, expect, gradient, numbers_apart

double = exercise(__file__)

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@double.claim("is twice `x`, in its shape and dtype", gate=True)
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
    """Every dtype stays what it is, and a tensor without dimensions keeps its shape and its dtype, too."""
    results = [trial.tensor(trial.call(trial.randn(dtype=dtype))) for dtype in (torch.float32, torch.float64)]
    shapes, dtypes = {tuple(got.shape) for got in results}, {got.dtype for got in results}
    # A helper of shape (1,) gives both results its own dtype; who reshapes x to (1,) keeps the two dtypes.
    key = "one element" if shapes == {(1,)} and len(dtypes) == 1 else ""
    expect(shapes == {()}, key, expected="shape ()", got=f"shape {max(shapes)}")
    for dtype in _DTYPES:
        x = trial.randn(trial.integer(2, 5), dtype=dtype)
        _expect_double(trial, x, trial.tensor(trial.call(x), shape=x.shape, dtype=dtype))
    dtypes, calls = list[torch.dtype](), list[str]()
    for dtype in _DTYPES:
        x = trial.randn(dtype=dtype)
        got = trial.tensor(trial.call(x), shape=())
        _expect_double(trial, x, got.to(dtype))
        dtypes.append(got.dtype)
        calls.append(trial.called)
    # A 0-dim factor leaves the dtype of vectors alone, and widens that of a number to its own.
    factors = [[torch.promote_types(dtype, factor) for dtype in _DTYPES] for factor in _DTYPES]
    key = "promoted" if dtypes in factors else ""
    for right, found, trial.called in zip(_DTYPES, dtypes, calls, strict=True):
        expect(found == right, key, expected=str(right), got=str(found))


def _expect_double(trial: Trial, x: torch.Tensor, got: torch.Tensor) -> None:
    holds = bool(trial.effects) or torch.equal(got.detach(), 2 * x)
    expect(holds, expected=(2 * x).flatten()[0], got=got.detach().flatten()[0])


@double.claim("stays connected to an `x` that requires grad")
def _(trial: Trial) -> None:
    x = trial.randn(3, requires_grad=True)
    result = trial.tensor(trial.call(x))
    found, twos = gradient(result, x), torch.full_like(x, 2)
    holds = found is not None and torch.equal(found, twos)
    key = "half cut" if found is not None and torch.equal(found, torch.ones_like(x)) else "cut"
    key = "reflagged" if found is None and result.requires_grad else key
    key = "in place" if trial.effects else key
    expect(holds, key, expected="the gradient 2 for x", got="none" if found is None else numbers_apart(found, twos)[1])

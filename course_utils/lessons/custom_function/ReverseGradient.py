"""``ReverseGradient`` turns a gradient around: its check compares what goes back with what came in."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils.checks.claims import Lazy, Trial, exercise, expect
from course_utils.lessons.custom_function import _shared as shared

ReverseGradient = exercise(__file__)


def _strengths(trial: Trial) -> tuple[float, ...]:
    drawn = trial.integer(65, 90) / 32 + 1 / 64  # exact in float32, too, and not whole: there more mistakes are right
    return (drawn, 1.0)


@ReverseGradient.claim("is a `torch.autograd.Function` whose `apply` gives `x` back unchanged", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_function(trial)
    for x in (*shared.inputs_of_all_kinds(trial), trial.randn(64, dtype=torch.float32)):
        for strength in (*_strengths(trial), -trial.integer(2, 9) / 4):
            scaled = [("forward scaled", factor * x) for factor in (-strength, strength)]
            shared.expect_value(trial, [x], x, scaled, strength)
            with shared.rename_misconception({"": "on paper"}):  # in float32 the rounding of a sum shows
                shared.expect_value(trial, [x], x, [], strength, float32_rtol=1e-11)


def _wrong(incoming: Tensor, strength: float) -> shared.Wrong:
    yield "upstream", torch.full_like(incoming, -strength)
    yield "sign", strength * incoming
    if strength != 1:  # at which more mistakes are right
        yield "not scaled", -incoming
        yield "passed on", incoming
        for rounded in (int(strength), *(round(strength, digits) for digits in range(4))):
            yield "rounded", -rounded * incoming
        for gradient in (incoming - strength, -incoming - strength, -incoming / strength, incoming / strength):
            yield "no factor", gradient


def _expect_turned(trial: Trial, x: Tensor, strength: float, wrong: Callable[..., shared.Wrong], inner: bool) -> None:
    shared.expect_gradients(
        trial,
        [x],
        lambda incoming, _: [-strength * incoming],
        lambda incoming, _: [wrong(incoming, strength)],
        strength,
        inner=inner,
        after=f" with strength {strength:.16g}",
    )


@ReverseGradient.claim("multiplies a gradient of random numbers by -strength on its way back", weight=2, gate=True)
def _(trial: Trial) -> None:
    for number, x in enumerate(shared.inputs_of_all_kinds(trial)):
        for strength in _strengths(trial):
            _expect_turned(trial, x, strength, _wrong, inner=bool(number % 2))


def _wrong_number(incoming: Tensor, strength: float) -> shared.Wrong:
    if strength == 0:
        yield from (("zero", incoming), ("zero", -incoming))
    if strength < 0:  # where the positive ones were right
        yield from (("absolute", strength * incoming), ("absolute", torch.zeros_like(incoming)))
    yield "float32", -torch.tensor(strength, dtype=torch.float32) * incoming


@ReverseGradient.claim(
    "takes every strength as it is: 0.0, negative ones, and all sixteen digits of a float", weight=1.5
)
def _(trial: Trial) -> None:
    for strength in (0.0, -trial.integer(2, 9) / 4, 0.2 + abs(trial.randn().item())):
        with shared.rename_misconception({"no gradient": "none for zero"}):
            _expect_turned(trial, trial.randn(4), strength, _wrong_number, inner=False)
    for dtype in (torch.bfloat16, torch.float16):
        _expect_rounded_once(trial, dtype)


def _expect_rounded_once(trial: Trial, dtype: torch.dtype) -> None:
    """A gradient of 16 bits is rounded with the product; where the strength has been rounded before, it shows."""
    eps = torch.finfo(dtype).eps
    strength = 1 + (trial.integer(10, 90) + 0.45) * eps  # nearly half-way between two numbers of the dtype
    x, incoming = trial.randn(256).to(dtype).requires_grad_(), (trial.randn(256).abs() + 0.5).to(dtype)
    right = -strength * incoming.double()
    (got,) = shared.backward(trial, shared.apply(trial, x, strength), [x], incoming, f" with strength {strength:.6g}")
    step = eps * torch.exp2(right.abs().log2().floor())  # from one number of the dtype to the next
    off = Lazy(lambda: f"up to {((got.double() - right).abs() / step).max().item():.2g} of the dtype's steps off")
    exact = got is not None and bool(((got.double() - right).abs() <= 0.55 * step).all())
    expect(exact, "float32", expected=f"a gradient in {dtype} that is rounded once, by half a step", got=off)


@ReverseGradient.claim("keeps the strength of each call for that call", weight=1)
def _(trial: Trial) -> None:
    strengths = _strengths(trial)
    leaves = [trial.randn(3, requires_grad=True) for _ in strengths]
    results = [shared.apply(trial, x, strength) for x, strength in zip(leaves, strengths, strict=True)]
    incoming = trial.randn(3)
    for x, result, strength in zip(leaves, results, strengths, strict=True):
        (got,) = shared.backward(trial, result, [x], incoming.clone(), ", with other calls in between")
        of_others = [("shared state", -other * incoming) for other in strengths if other != strength]
        shared.expect_agree(got, -strength * incoming, f"the gradient for strength {strength:.3g}", of_others)


@ReverseGradient.claim("leaves the incoming gradient as it is, so that a branch beside it gets the right one", weight=1)
def _(trial: Trial) -> None:
    for values in shared.inputs_of_all_kinds(trial):
        x, beside = (values.clone().requires_grad_() for _ in range(2))
        result = shared.apply(trial, x, 2.0)
        incoming = trial.randn(*values.shape)
        before = incoming.clone()
        for branches, wanted in ((result + beside, [x, beside]), (result, [x])):
            shared.backward(trial, branches, wanted, incoming)
            shared.expect_unedited(incoming, before)
        (got,) = shared.backward(trial, result + x, [x], incoming, " with strength 2, and x added")
        shared.expect_agree(got, -before, "the gradient of x, -2 + 1 times that", [("hook", -4 * before)])

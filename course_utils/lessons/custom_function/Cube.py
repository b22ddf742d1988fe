"""``Cube`` is x³ as a Function: its check holds values, slopes and second derivatives against the formulas."""

import torch
from torch import Tensor

from course_utils.checks.claims import Lazy, Trial, exercise, expect
from course_utils.lessons.custom_function import _shared as shared

Cube = exercise(__file__)


@Cube.claim("is a `torch.autograd.Function` whose `apply` gives x³", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_function(trial)
    for x in (*shared.inputs_of_all_kinds(trial), trial.randn(4, dtype=torch.float32)):
        shared.expect_value(trial, [x], x * x * x, [("value", 3 * x)])


def _slope(x: Tensor) -> Tensor:
    return 3 * x * x


def _wrong(incoming: Tensor, x: Tensor) -> shared.Wrong:
    slope = _slope(x)
    for power in (x * x, 3 * x, 2 * x, 6 * x):
        yield "power rule", power * incoming
    for number in range(-12, 13):
        if number:
            yield "factor", number / 2 * x * x * incoming
    yield "passed on", incoming
    yield "added", slope + incoming
    yield "at zero", torch.where(x < 0, torch.nan, slope * incoming)  # by a root


@Cube.claim("has a backward of its own, which gives 3x² times the incoming gradient", weight=1, gate=True)
def _(trial: Trial) -> None:
    shared.expect_slope(trial, _slope, _wrong)


@Cube.claim("gives the right gradient at x = 0, too, and no second derivative but 0")
def _(trial: Trial) -> None:
    shared.expect_slope_at_zero(trial, _slope)
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    incoming = torch.ones(3, dtype=torch.float64)
    (gradient,) = shared.backward(trial, shared.apply(trial, x), [x], incoming, create_graph=True)
    if gradient is not None and gradient.grad_fn and not gradient.grad_fn.name().endswith("Error"):
        (second,) = shared.backward(trial, gradient, [x], incoming, " with create_graph=True, again")
        shown = Lazy(lambda: f"{second[0].item():g}")
        expect(second is None or not second.any(), "at zero", expected="the second derivative at x = 0: 0", got=shown)


@Cube.claim("lets no other call write over what a call has kept")
def _(trial: Trial) -> None:
    shared.expect_calls_apart(trial, [trial.randn(5)], [trial.randn(5)], lambda incoming, x: [_slope(x) * incoming])


@Cube.claim("passes gradcheck in float64, at x other than 0", weight=0.5)
def _(trial: Trial) -> None:
    for shape in ((trial.integer(3, 5),), (2, 2), ()):
        shared.expect_gradcheck(trial, trial.randn(*shape, requires_grad=True))


@Cube.claim("has a second derivative: 6x, and passes gradgradcheck, at x other than 0", weight=3)
def _(trial: Trial) -> None:
    values = trial.randn(trial.integer(4, 6))
    x, incoming = values.clone().requires_grad_(), trial.randn(*values.shape, requires_grad=True)
    result = shared.apply(trial, x)
    of_x, others = shared.kept_on_node(shared.node_of(result), x)
    cloned = any(torch.equal(other, values) for other in others)
    cut = "clone" if cloned else "cut" if of_x and not others else "intermediate"
    (gradient,) = shared.backward(trial, result, [x], incoming, create_graph=True)
    expect(gradient is not None, "no gradient", expected="a gradient", got="None")
    history = gradient.grad_fn
    expect(history is not None, "cut", expected="a gradient with a history (create_graph=True)", got="no grad_fn")
    once = history.name().endswith("Error")  # the node that once_differentiable puts there
    expect(not once, "once", expected="a gradient that can be differentiated again", got="once_differentiable")
    direction = trial.randn(*values.shape)
    second, mixed = shared.backward(trial, gradient, [x, incoming], direction, " with create_graph=True, again")
    shown = "none: the second derivative is 0"
    expect(second is not None, cut, expected="a path from the gradient to x", got=shown)
    shared.expect_agree(second, 6 * values * incoming * direction, "the second derivative")
    with shared.rename_misconception({"no gradient": "constant"}):
        shared.expect_agree(mixed, 3 * values * values * direction, "the derivative for the incoming gradient")
    for shape in ((trial.integer(2, 4),), (2, 2)):
        shared.expect_gradcheck(trial, trial.randn(*shape, requires_grad=True), check=torch.autograd.gradgradcheck)

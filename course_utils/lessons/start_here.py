"""Lesson 00, start here: one exercise without points, to meet the checks."""

import torch

from course_utils.checks.exercise import Exercise, Misconception, Missed, Trial

double = Exercise(
    name="double",
    points=0,
    hints=(
        "Multiplication works on tensors as it does on numbers.",
        "Make a new tensor and `return` it. What you were given stays as it is.",
    ),
    misconceptions={
        "square": Misconception(
            "Twice a number is its square",
            "For 2 both give 4. For other numbers they differ, and a check draws other numbers each time.",
            "Try your function with 3.",
        ),
        "in place": Misconception(
            "x *= 2 makes a new tensor",
            "It edits the caller's tensor in place. torch refuses that for a leaf that requires grad, because its "
            "gradient would belong to a value that is gone.",
            "Use an operation that returns its result.",
        ),
        "cut": Misconception(
            "Only the values matter",
            "The result must stay connected to `x`: without its history no gradient comes back.",
            "Print `grad_fn` of what you return for a tensor that requires grad.",
        ),
        "printed": Misconception(
            "Printing a result returns it",
            "`print` shows a value to you. Only `return` hands it to the caller.",
            "Replace `print(...)` by `return ...`.",
        ),
    },
    raises=(("in-place operation", "in place"),),
    effects=(("edited x", "in place"),),
)


@double.claim("is twice `x`", gate=True)
def _(trial: Trial) -> None:
    for x in (trial.randn(trial.integer(2, 5)), trial.randn(trial.integer(2, 5), 2, requires_grad=True)):
        result = trial.call(x)
        if result is None:
            raise Missed("printed", expected="a tensor", got="None")
        got = trial.tensor(result, shape=x.shape, dtype=x.dtype).detach()
        if torch.equal(got, x.detach() ** 2):
            raise Missed("square", expected=2 * x[0].flatten()[0].detach(), got=got[0].flatten()[0])
        if trial.effects:
            continue  # the values of x are put to the test by the last claim
        if not torch.allclose(got, 2 * x.detach()):
            raise Missed(expected=2 * x[0].flatten()[0].detach(), got=got[0].flatten()[0])


@double.claim("stays connected to an `x` that requires grad")
def _(trial: Trial) -> None:
    x = trial.randn(3, requires_grad=True)
    got = trial.tensor(trial.call(x))
    if not got.requires_grad:
        raise Missed("cut", expected="a grad_fn", got="none")
    (gradient,) = torch.autograd.grad(got.sum(), x, allow_unused=True)
    if gradient is None or not torch.equal(gradient, torch.full_like(x, 2)):
        raise Missed("cut", expected="the gradient 2 for x", got=gradient)


EXERCISES = (double,)

"""``ReverseGradient`` changes no value, and turns the gradient around."""

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.custom_function import _shared as shared

ReverseGradient = compared(__file__)


@ReverseGradient.looks("is a `torch.autograd.Function` whose `apply` gives the values of x", gate=True)
def _(trial: Trial) -> Seen:
    shared.require_function(trial)
    return {"x": shared.applied(trial, trial.randn(3, requires_grad=True), 2.5, what="x, 2.5").detach()}


@ReverseGradient.looks("returns -strength times the incoming gradient", weight=4)
def _(trial: Trial) -> Seen:
    for strength in (0.5 + trial.integer(2, 9), 1.0, 0.0, -0.25):
        x = trial.randn(2, 4, requires_grad=True)
        result = shared.applied(trial, x, strength, what=f"x, {strength}")
        incoming = trial.randn(2, 4)
        yield "gradient of x", shared.gradients(trial, result, [x], incoming, f" with strength {strength}")[0]


@ReverseGradient.looks("keeps the strength of each call for that call", weight=2)
def _(trial: Trial) -> Seen:
    x, incoming = trial.randn(3, requires_grad=True), trial.randn(3)
    results = [shared.applied(trial, x, strength, what=f"x, {strength}") for strength in (0.5, 3.0)]
    for result, strength in zip(results, (0.5, 3.0), strict=True):
        what = f" with strength {strength}, after another call"
        yield "gradient of x", shared.gradients(trial, result, [x], incoming, what)[0]

"""``ReverseGradient`` changes no value, and turns the gradient around."""

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.custom_function import _shared as shared

ReverseGradient = compared(__file__)


def _strength(trial: Trial) -> float:
    return 1 + trial.integer(1, 31) / 64 + trial.integer(1, 3)


@ReverseGradient.looks("is a `torch.autograd.Function` whose `apply` gives the values of x", gate=True)
def _(trial: Trial) -> Seen:
    shared.require_function(trial)
    return {
        "x": shared.applied(trial, trial.randn(3, requires_grad=True), _strength(trial), what="x, strength").detach()
    }


@ReverseGradient.looks("returns -strength times the incoming gradient", weight=4)
def _(trial: Trial) -> Seen:
    for strength in (_strength(trial), 0.0, -_strength(trial)):
        x = trial.randn(2, 4, requires_grad=True)
        result = shared.applied(trial, x, strength, what=f"x, {strength}")
        incoming = trial.randn(2, 4)
        yield "gradient of x", shared.gradients(trial, result, [x], incoming, f" with strength {strength}")[0]
    beside, x = trial.randn(2, 4, requires_grad=True), trial.randn(2, 4, requires_grad=True)
    # One gradient goes to both summands, and first to the operation that was recorded last.
    result = 3 * beside + shared.applied(trial, x, _strength(trial), what="x, strength")
    found = shared.gradients(trial, result, [x, beside], trial.randn(2, 4), " + 3 * z")
    yield "gradient of what it is added to", found[1]


@ReverseGradient.looks("keeps the strength of each call for that call", weight=2)
def _(trial: Trial) -> Seen:
    x = trial.randn(3, requires_grad=True)
    strengths = _strength(trial), 5 + _strength(trial)
    results = [shared.applied(trial, x, strength, what=f"x, {strength}") for strength in strengths]
    for result, strength in zip(results, strengths, strict=True):
        what = f" with strength {strength}, after another call"
        yield "gradient of x", shared.gradients(trial, result, [x], trial.randn(3), what)[0]

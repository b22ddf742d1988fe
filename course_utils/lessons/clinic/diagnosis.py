"""Asks for the line of the sick script behind each of its ten symptoms; the check counts from the script's own text."""

import contextlib
from dataclasses import replace
from typing import Any

from course_utils.checks.claims import Missed, Trial, predict
from course_utils.checks.exercise import Rule
from course_utils.clinic.scripts import lines, sick_run

# For each symptom the lines of which one has to change, by their text. tests/test_clinic.py mends each fault there.
_CAUSES = {
    "encoder": ("model.encoder.requires_grad = False",),
    "weight": ("weight = nn.Parameter(scale * torch.randn(128, 10, device=dataset.device)).T",),
    "log": ("losses.append(loss)", "loss = accumulate(model, images, labels, dataset.micro_rows)", "return total"),
    "steps": ("ctx.x, ctx.y = x, x * torch.sigmoid(x)", "return ctx.y"),
    "evaluation": ("outputs.append(model(x))", "for x, y in batches:", "def evaluate(model, batches):"),
    "modes": ("model.eval()", "return right.float().mean().item()"),
    "gate": ("halves.append(is_open * Swish.apply(branch(x)))", "for branch, is_open in self.gates:"),
    "hooks": ("model.encoder.register_forward_hook(note)",),
    "gradient": ("loss = F.cross_entropy(model(x), y)", "total = total + loss"),
    "peak": ("total.backward()", "total = total + loss"),
}


def causes(_: Trial | None = None) -> dict[str, frozenset[int]]:
    """The numbers of the lines behind each symptom, as ``listing`` shows them."""
    text = [line.strip() for line in lines(sick_run)]
    return {symptom: frozenset(text.index(line) + 1 for line in found) for symptom, found in _CAUSES.items()}


def _number(value: Any) -> int:
    """34, 34.0 and "34"."""
    if type(value) is str and value.strip().isdecimal():
        return int(value)
    if type(value) is bool or not isinstance(value, (int, float)) or value != int(value):
        raise TypeError("the number of a line, as the listing shows it")
    return int(value)


def _is_counted_without_blanks(answer: dict) -> bool:
    """Whether three numbers or more that are wrong are right where blank lines are not counted."""
    written = [number for number, text in enumerate(lines(sick_run), start=1) if text.strip()]
    shifted = dict(enumerate(written, start=1))
    hits = 0
    for key, right in causes().items():
        with contextlib.suppress(TypeError, ValueError):
            number = _number(answer.get(key))
            hits += number not in right and shifted.get(number) in right
    return hits >= 3


def _with_the_line(rule: Rule) -> Rule:
    """The rule, whose card shows the text of the line that was named."""

    def judge(trial: Trial) -> None:
        try:
            rule.judge(trial)
        except Missed as missed:
            if not missed.misconception:  # no number
                raise
            number, script = _number(trial.answer[rule.text.strip("`")]), lines(sick_run)
            told = (
                f"`{script[number - 1].strip()}`" if 0 < number <= len(script) else f"none of the {len(script)} lines"
            )
            key = "counted" if _is_counted_without_blanks(trial.answer) else missed.misconception
            raise Missed(key, your_prediction=f"line {number}", which_is=told) from None

    return replace(rule, judge=judge)


def _as_one_line(rule: Rule) -> Rule:
    """The rule for one number in all ten places: what that shows is not the mistake of a single symptom."""

    def judge(trial: Trial) -> None:
        try:
            rule.judge(trial)
        except Missed as missed:
            missed.misconception = "one line"
            raise

    return replace(rule, judge=judge)


diagnosis = predict(__file__, causes, _number)
diagnosis._rules[:] = map(_with_the_line, diagnosis._rules)
_of_constants = diagnosis.first_rules
diagnosis.first_rules = lambda answer: [*map(_as_one_line, _of_constants(answer))]

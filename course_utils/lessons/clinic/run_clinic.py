"""``run_clinic``: the script of the lesson, repaired. The check runs it on a watched network, and looks at ten
promises, each worth the same. One that is not kept has the name of a mistake, in the words of its lesson.
"""

from collections.abc import Callable
from dataclasses import replace

from course_utils.checks.compare import Exercise, Trial
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.score import Score
from course_utils.clinic import ClinicDataset, ClinicResult
from course_utils.lessons.clinic import _learning, _leavings
from course_utils.lessons.clinic._network import expect
from course_utils.lessons.clinic._watched import WatchedDataset, run

run_clinic = Exercise.read(__file__)


def examine(script: Callable[[ClinicDataset, int, int], ClinicResult]) -> Score:
    """The card of any ``script(dataset, epochs, seed)``, judged like an answer to ``run_clinic``; nothing is stored."""
    return judge(run_clinic, script, "clinic")


def symptoms(script: Callable[[ClinicDataset, int, int], ClinicResult]) -> Score:
    """That card without a word on causes: what was expected, and what was found."""
    score = examine(script)
    bare = Misconception(name="", explanation="", next_step="Which line of the script does this?")
    graded = [claim for claim in score.claims if claim.weight]
    claims = tuple(replace(claim, text=claim.text.partition(" (")[0], misconception=bare) for claim in graded)
    about = {"lesson": score.lesson, "exercise": getattr(script, "__name__", "script"), "possible": float(len(claims))}
    return Score(sum(claim.held for claim in claims), status=score.status, claims=claims, output=score.output, **about)


_PROMISES: dict[str, Callable[[Trial], None]] = {
    "keeps the encoder as it was, to the bit (lesson 01)": _leavings.expect_frozen,
    "has weights that are flagged leaves, and moves them (lesson 02)": _leavings.expect_moving,
    "logs each training batch's mean loss, without its graph (lesson 03)": _learning.expect_log,
    "holds no more bytes from training step to training step (lesson 08)": _leavings.expect_flat_training,
    "records and keeps nothing in evaluation, from test batch to test batch (lesson 04)": _leavings.expect_flat_tests,
    "trains the branches in training mode, tests in eval mode, and puts flags back (lesson 05)": _leavings.expect_modes,
    "spends no FLOPs on the closed branch (lesson 06)": _leavings.expect_closed,
    "leaves no hooks behind (lesson 07)": _leavings.expect_no_hooks,
    "goes one step down the full batch's gradient (lesson 09)": _learning.expect_descent,
    "reaches the bar, counted by rows, within the budget, few rows at a time (lesson 09)": _learning.expect_success,
}
run_clinic.claim("trains on every batch, and tests after every epoch", weight=0, gate=True)(_learning.expect_work)
run_clinic.claim("computes the script's logits, and one accuracy per epoch", weight=0)(_learning.expect_network)
for _number, (_text, _look) in enumerate(_PROMISES.items(), start=1):
    run_clinic.claim(f"{_number} · {_text}")(_look)


@run_clinic.claim("leaves torch's settings and the dataset as they were", weight=0)
def _(trial: Trial) -> None:
    run(trial, WatchedDataset(trial), 1)
    # Its seed is the script's own affair.
    effects = [effect for effect in trial.effects if effect != "seeded the random number generator"]
    expect(not effects, "side effect", found="; ".join(f"the script {effect}" for effect in effects[:4]))

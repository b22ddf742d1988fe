"""Decides what of a rebuilt notebook is run, in which order, and what counts (``Director``).

Set-up, answers, added cells and checks run in the notebook's order. The lesson's experiments run only where something
needs them. A cell that ends its process costs itself alone: everything else is run again without it. Imports rebuild,
released, outcomes, signs, source and warm_python.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from course_utils.classroom import outcomes
from course_utils.classroom.jail import Bounds
from course_utils.classroom.needs import Needs
from course_utils.classroom.outcomes import Verdict
from course_utils.classroom.reading import clean_outputs
from course_utils.classroom.rebuild import Rebuilt, Step
from course_utils.classroom.released import Released, ReleasedCell
from course_utils.classroom.signs import signs
from course_utils.classroom.source import defined
from course_utils.classroom.warm_python import Ended, Session, WarmPython

if TYPE_CHECKING:
    from course_utils.classroom.grader import Limits

_MOST_RUNS = 8  # how often a submission is begun again after a cell ended its process
_LEAST_OUTPUT = 2000
# Seen, and without influence on a score.
_HARMLESS = frozenset(
    {"started a program", "started a process", "sent a signal to a process", "tried to use the network"}
)


class Director:
    """One submission's way through the sandbox.

    Attributes:
        reviews: what the teacher should look at, one sentence each.
        notes: what else is worth knowing, one sentence each.
    """

    def __init__(self, released: Released, rebuilt: Rebuilt, python: WarmPython, bounds: Bounds, limits: Limits):
        self._released, self._rebuilt, self._python = released, rebuilt, python
        self._bounds, self._limits = bounds, limits
        self.reviews: list[str] = []
        self.notes: list[str] = []
        self._verdicts: dict[str, Verdict] = {}
        self._errors: dict[int, list[str]] = {}  # by step: how a cell ended
        self._lost: dict[int, Ended] = {}  # by step: cells that ended their process
        self._room = limits.output_bytes
        self._deadline = 0.0
        self._forgiven = False
        self._seen_replaced: set[str] = set()
        self._needs = Needs(rebuilt.steps)

    def run(self) -> dict[str, Verdict]:
        """Runs what is needed. Returns a verdict for every graded cell, by its id."""
        self._judge_without_running()
        if len(self._verdicts) < len(self._released.graded):
            self._deadline = time.monotonic() + self._limits.wall_seconds
            needed = self._needs.experiments()
            if needed:
                self._note_experiments(*needed)
            self._run_until_it_lasts(experiments=bool(needed))
            if not needed:
                self._run_again_with_experiments()
        self._look_at_the_text()
        return self._verdicts

    # What needs no code.

    def _judge_without_running(self) -> None:
        for step in self._rebuilt.steps:
            cell = step.released
            if cell is None:
                continue
            if cell.role == "by hand":
                blank = step.blank and not self._is_task(cell)
                self._verdicts[cell.id] = outcomes.not_attempted(cell) if blank else outcomes.by_hand(cell)
            elif cell.role == "check" and cell.exercise:
                answer = self._answer_of(cell)
                if answer is not None and answer.blank and not answer.copies:
                    self._verdicts[cell.id] = outcomes.not_attempted(cell)

    def _is_task(self, cell: ReleasedCell) -> bool:
        item = next(c for c in self._released.notebook["cells"] if c.get("id") == cell.id)
        return bool(item.get("metadata", {}).get("nbgrader", {}).get("task"))

    def _answer_of(self, check: ReleasedCell) -> Step | None:
        return next((step for step in self._rebuilt.steps if step.released and step.released.id == check.answer), None)

    def _note_experiments(self, label: str, name: str) -> None:
        self.notes.append(f"The lesson's experiments were run, because {label} uses `{name}`.")

    # Running.

    def _run_until_it_lasts(self, experiments: bool) -> None:
        for _ in range(_MOST_RUNS):
            if self._run_once(experiments):
                break
        for cell in self._released.graded:
            if cell.id not in self._verdicts:
                self._verdicts[cell.id] = outcomes.stopped(
                    cell, "timed out", "the submission as a whole had used up its time"
                )

    def _run_again_with_experiments(self) -> None:
        lacking = [
            (cell, verdict.undefined)
            for cell in self._released.graded
            if (verdict := self._verdicts[cell.id]).undefined in self._needs.from_experiments
        ]
        if not lacking:
            return
        self._note_experiments(f"the check of `{lacking[0][0].exercise}`", lacking[0][1])
        before = {cell.id: self._verdicts.pop(cell.id) for cell, _ in lacking}
        self._lost.clear()
        self._errors.clear()
        self._run_until_it_lasts(experiments=True)
        for name, verdict in before.items():
            self._verdicts[name] = max(self._verdicts[name], verdict, key=lambda v: v.earned)

    def _run_once(self, experiments: bool) -> bool:
        """Runs the notebook once; False where a cell ended the process and it is worth beginning again."""
        self._room = self._limits.output_bytes
        session: Session | None = None
        current: Step | None = None
        try:
            with self._python.session(self._bounds) as session:
                for step in self._rebuilt.steps:
                    current = step
                    self._do(session, step, experiments)
                    if self._all_judged() and not self._late_candidates():
                        break
                current = None
                self._judge_late(session)
            return True
        except Ended as ended:
            if current is None:
                return True  # every verdict is there; only second chances were lost
            if not ended.by_itself and not self._forgiven:
                # The sandbox itself ended. Once that may be bad luck; the same cell again is to blame.
                self._forgiven = True
                self.reviews.append(f"At {current.label}: {ended.why}; the submission was run again.")
                return False
            if current.released is not None and current.released.role == "check":
                self._verdicts[current.released.id] = outcomes.stopped(current.released, ended.outcome, ended.why)
            self._lost[current.index] = ended
            said = f"{_sentence(current.label)} was left out: {ended.why}."
            (self.reviews if "channel" in ended.why else self.notes).append(said)
            return time.monotonic() > self._deadline
        finally:
            if session is not None:
                self._note_signs(session)

    def _all_judged(self) -> bool:
        return all(cell.id in self._verdicts for cell in self._released.graded)

    def _do(self, session: Session, step: Step, experiments: bool) -> None:
        cell = step.released
        if not step.is_code or step.is_copy or step.index in self._lost or not step.source.strip():
            return
        if time.monotonic() > self._deadline:
            return
        if cell is not None and cell.role == "check":
            if cell.id not in self._verdicts:
                self._verdicts[cell.id] = self._check(session, cell, step)
        elif cell is None or cell.role != "experiment" or experiments:
            self._cell(session, step)

    def _cell(self, session: Session, step: Step) -> None:
        answer = session.ask(
            {
                "do": "cell",
                "name": step.label,
                "source": step.source,
                "setup": step.role == "set-up",
                "seconds": self._seconds(),
                "output_bytes": max(self._room, _LEAST_OUTPUT),
            }
        )
        reply = answer["reply"]
        item = self._rebuilt.notebook["cells"][step.index]
        item["outputs"] = clean_outputs(reply.get("outputs"))
        count = reply.get("count")
        item["execution_count"] = count if type(count) is int else None
        self._room -= sum(len(str(output)) for output in item["outputs"])
        error = reply.get("error")
        if answer.get("interrupted"):
            limit = f"{self._limits.check_seconds:g} s"
            self._lost[step.index] = Ended("timed out", f"its cell ran for more than {limit}")
            self.notes.append(f"{_sentence(step.label)} was interrupted after {limit}.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:500] for part in error]
            if step.released is None and self._needs.used_by_answers & defined(step.source):
                self.notes.append(f"{_sentence(step.label)} raised {self._errors[step.index][0]}.")

    def _seconds(self) -> float:
        return max(0.1, min(self._limits.check_seconds, self._deadline - time.monotonic()))

    # Judging.

    def _check(self, session: Session, cell: ReleasedCell, step: Step) -> Verdict:
        answer = self._answer_of(cell)
        best, seen = self._one_check(session, cell, step, [], False)
        if best.outcome == "passed":
            return best
        changed = bool(seen.get("settings")) or bool(seen.get("names"))
        for source in answer.copies if answer else ():
            verdict, _ = self._one_check(session, cell, step, [source], False)
            best = _better(best, verdict)
        if changed and best.outcome != "passed":
            verdict, _ = self._one_check(session, cell, step, [], True)
            if verdict.earned > best.earned:
                names = ", ".join(f"`{name}`" for name in seen.get("names") or ()) or "torch's settings"
                self.notes.append(
                    f"Before the check of `{cell.exercise or cell.grade_id}`, {names} had been changed by an earlier "
                    "cell; what the set-up cell had made was put back."
                )
            best = _better(best, verdict)
        return best

    def _one_check(
        self, session: Session, cell: ReleasedCell, step: Step, repeat: list[str], put_back: bool
    ) -> tuple[Verdict, dict[str, Any]]:
        message = session.ask(
            {
                "do": "check",
                "name": step.label,
                "lesson": cell.lesson,
                "exercise": cell.exercise,
                "expression": cell.expression,
                "source": cell.source,
                "repeat": repeat,
                "put_back": put_back,
                "seconds": self._seconds(),
            }
        )
        seconds = float(message.get("seconds", 0.0))
        if "stopped" in message:
            return outcomes.stopped(cell, message["stopped"], message["why"], seconds), {}
        result = message["result"]
        verdict = self._verdict(cell, result, seconds)
        if verdict is None:
            verdict = outcomes.stopped(cell, "killed", "its check's result did not come from the check", seconds)
            self.reviews.append(f"In {step.label}: a result that no check gives was sent to the grader.")
        self._note_replaced(step, verdict, result)
        return verdict, result

    def _verdict(self, cell: ReleasedCell, result: dict[str, Any], seconds: float) -> Verdict | None:
        if not cell.exercise:
            return outcomes.own_check(cell, result, seconds)
        error = result.get("error")
        if not (isinstance(error, list) and len(error) == 2):
            return outcomes.judged(cell, result, seconds)
        # There is no answer to judge: say what became of its cell.
        answer = self._answer_of(cell)
        ended = self._lost.get(answer.index) if answer else None
        if ended is not None:
            return outcomes.stopped(cell, ended.outcome, ended.why, seconds)
        failed = self._errors.get(answer.index) if answer else None
        if failed is not None:
            return outcomes.raised(cell, failed)
        verdict = outcomes.raised(
            cell, [str(part)[:500] for part in error], "the answer has the name that is asked for"
        )
        if verdict.undefined == cell.expression:
            verdict.undefined = ""
        return verdict

    def _late_candidates(self) -> list[Step]:
        """Checks that are worth another look at the end, when everything that was handed in has run."""
        found = []
        for step in self._rebuilt.steps:
            cell = step.released
            verdict = self._verdicts.get(cell.id) if cell and cell.role == "check" else None
            if verdict is None or verdict.outcome in ("passed", "not attempted", "timed out", "killed"):
                continue
            if self._rebuilt.shuffled or verdict.undefined in self._needs.from_student:
                found.append(step)
        return found

    def _judge_late(self, session: Session) -> None:
        for step in self._late_candidates():
            cell = step.released
            assert cell is not None
            answer = self._answer_of(cell)
            for source in (None, answer.source, *answer.copies) if answer else (None,):
                if time.monotonic() > self._deadline or self._verdicts[cell.id].outcome == "passed":
                    break
                verdict, _ = self._one_check(session, cell, step, [source] if source else [], False)
                if verdict.earned > self._verdicts[cell.id].earned:
                    self.notes.append(
                        f"{_sentence(step.label)} was repeated at the end, because the answer needs a cell that stands "
                        "after it."
                    )
                self._verdicts[cell.id] = _better(self._verdicts[cell.id], verdict)

    # What the teacher should know.

    def _note_replaced(self, step: Step, verdict: Verdict, result: dict[str, Any]) -> None:
        before = [name for name in _names(result.get("before")) if name not in self._seen_replaced]
        after = _names(result.get("after"))
        self._seen_replaced.update(before)
        if before:
            self.reviews.append(
                f"Before {step.label}: {_listed(before)} had been replaced; the genuine ones were put back to judge."
            )
        if after:
            verdict.withhold = True
            self.reviews.append(f"In {step.label}: {_listed(after)} had been replaced while the answer was judged.")
        threads = _names(result.get("threads"))
        if threads:
            verdict.withhold = True
            self.reviews.append(f"During {step.label}: the answer left threads running beside the check.")

    def _note_signs(self, session: Session) -> None:
        for where, what in dict.fromkeys(session.signs):
            self.reviews.append(f"In {where}: the code {what}.")
            if what in _HARMLESS:
                continue
            for step in self._rebuilt.steps:
                if step.label == where and step.released is not None:
                    self._withhold(step.released)

    def _withhold(self, cell: ReleasedCell) -> None:
        cells = self._released.checks_of(cell) if cell.role == "answer" else (cell,)
        for check in cells:
            if check.id in self._verdicts:
                self._verdicts[check.id].withhold = True

    def _look_at_the_text(self) -> None:
        seen_in_helper = ""
        for step in self._rebuilt.steps:
            cell = step.released
            if cell is not None and cell.role == "check" and seen_in_helper:
                self._withhold(cell)
            if not step.is_code or not step.from_student:
                continue
            found = [sign for source in (step.source, *step.copies) for sign in signs(source)]
            if not found:
                continue
            self.reviews.append(f"In {step.label}: the code reaches for {_listed(list(dict.fromkeys(found)))}.")
            if cell is not None and cell.role == "answer":
                self._withhold(cell)
            else:
                seen_in_helper = step.label


def _better(one: Verdict, other: Verdict) -> Verdict:
    """The one that earned more; in doubt the first. What either showed of tampering stays."""
    best = other if other.earned > one.earned else one
    best.withhold = best.withhold or (other.withhold and other is best)
    best.seconds = one.seconds + other.seconds
    return best


def _names(value: Any) -> list[str]:
    return [str(item)[:100] for item in value[:20]] if isinstance(value, list) else []


def _listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _sentence(label: str) -> str:
    return label[:1].upper() + label[1:]

"""Decides what of a rebuilt notebook is run, in which order, and what counts (``Director``).

Set-up, answers, added cells and checks run in the notebook's order. The lesson's experiments run only where something
needs them. A cell that ends its process costs itself alone: everything else is run again without it. An answer whose
check left any doubt is judged a second time, in a clean process with the set-up, the helpers that it needs and itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.rebuild.needs import Needs
from course_utils.classroom.rebuild.reading import clean_outputs
from course_utils.classroom.rebuild.rebuild import Rebuilt, Step
from course_utils.classroom.rebuild.released import Released, ReleasedCell
from course_utils.classroom.rebuild.source import parse
from course_utils.classroom.sandbox.jail import Bounds
from course_utils.classroom.sandbox.warm_python import Ended, Session, WarmPython

if TYPE_CHECKING:
    from course_utils.classroom.judging.limits import Limits

_MOST_COPIES = 3  # of an answer that are judged beside it: with one for each guess, the best would always be right
_MOST_RUNS = 8  # how often a submission is begun again after a cell ended its process
_AROUND_BYTES = 1000  # of what a submission may print: for what outputs have around them, and the line on what is cut


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
        self._lost: dict[int, Ended] = {}  # by step: cells that ended their process, or had to be interrupted
        self._troubled = False  # whether the sandbox itself has ended once
        self._spent = 0.0  # seconds that the submission has used
        self._room = limits.output_bytes
        self._needs = Needs(rebuilt.steps)
        self._lesson = next((cell.lesson for cell in released.graded if cell.lesson), "")
        setup = parse("\n".join(step.source for step in rebuilt.steps if step.role == "set-up" and step.is_code))
        self._setup = "" if setup is None else ast.unparse(setup)

    def run(self) -> dict[str, Verdict]:
        """Runs what is needed. Returns a verdict for every graded cell, by its id."""
        self._judge_without_running()
        if not self._all_judged():
            needed = self._needs.experiments()
            if needed:
                self._note_experiments(*needed)
            for _ in range(_MOST_RUNS):
                if self._run_once(experiments=bool(needed)):
                    break
            self._judge_again(experiments=bool(needed))
        for verdict in self._verdicts.values():
            self.reviews += verdict.seen if verdict.earned else ()
        return self._verdicts

    # What needs no code.

    def _judge_without_running(self) -> None:
        # Where any code was written, an untouched stub proves nothing: another cell can have made the answer.
        for step in self._rebuilt.steps:
            cell = step.released
            if cell is not None and cell.role == "by hand":
                self._verdicts[cell.id] = outcomes.not_attempted(cell) if step.blank else outcomes.by_hand(cell)
            elif cell is not None and cell.role == "check" and cell.exercise and not self._rebuilt.own_code:
                self._verdicts[cell.id] = outcomes.not_attempted(cell)

    def _answer_of(self, check: ReleasedCell) -> Step | None:
        return next((step for step in self._rebuilt.steps if step.released and step.released.id == check.answer), None)

    def _note_experiments(self, label: str, name: str) -> None:
        self.notes.append(f"The lesson's experiments were run, because {label} uses `{name}`.")

    # Running everything, in the notebook's order.

    def _run_once(self, experiments: bool) -> bool:
        """Runs the notebook once; False where a cell ended the process and it is worth beginning again."""
        self._room = self._limits.output_bytes
        current: Step | None = None
        try:
            with self._python.session(self._bounds, self._lesson) as session:
                for current in self._rebuilt.steps:
                    self._do(session, current, experiments)
                    if self._all_judged() and not self._late_candidates():
                        break
                current = None
                self._judge_late(session)
            return True
        except Ended as ended:
            if current is None:
                return True  # every verdict is there; only second chances were lost
            if not ended.outcome and not self._troubled:
                self._troubled = True  # once that may be bad luck; the same cell again is to blame
                self.notes.append(f"At {current.label}: {ended.why}; the submission was run again.")
                return False
            if current.released is not None and current.released.role == "check":
                self._verdicts[current.released.id] = outcomes.stopped(current.released, ended.outcome, ended.why)
            self._lost[current.index] = ended
            said = f"{_sentence(current.label)} was left out: {ended.why}."
            (self.reviews if "channel" in ended.why else self.notes).append(said)
            return self._out_of_time()

    def _all_judged(self) -> bool:
        return all(cell.id in self._verdicts for cell in self._released.graded)

    def _out_of_time(self) -> bool:
        return self._spent > self._limits.wall_seconds

    def _do(self, session: Session, step: Step, experiments: bool) -> None:
        cell = step.released
        if self._out_of_time() or not self._is_run(step):
            return
        if cell is not None and cell.role == "check":
            if cell.id not in self._verdicts:
                self._verdicts[cell.id] = self._check(session, cell, step)
        elif cell is None or cell.role != "experiment" or experiments:
            self._cell(session, step)

    def _is_run(self, step: Step) -> bool:
        return bool(step.is_code and not step.is_copy and step.index not in self._lost and step.source.strip())

    def _cell(self, session: Session, step: Step) -> None:
        cell = step.released
        stub = cell is not None and step.blank and not step.copies
        answer = session.ask(
            {
                "do": "cell",
                "name": step.label,
                "source": step.source,
                # A stub that nobody touched must not take the place of an answer that was made elsewhere.
                "unless": sorted(cell.names) if cell is not None and stub else [],
                "seconds": self._limits.check_seconds,
                "output_bytes": max(self._room - _AROUND_BYTES, 0),
            }
        )
        self._spent += float(answer["seconds"])
        reply = answer["reply"]
        item = self._rebuilt.notebook["cells"][step.index]
        item["outputs"] = clean_outputs(reply.get("outputs"), max(self._room, 0))
        count = reply.get("count")
        item["execution_count"] = count if type(count) is int and 0 < count < 10**6 else None
        self._room -= sum(len(str(output)) for output in item["outputs"])
        error = reply.get("error")
        if answer.get("interrupted"):
            limit = f"{self._limits.check_seconds:g} s"
            self._lost[step.index] = Ended("timed out", f"its cell ran for more than {limit}")
            self.notes.append(f"{_sentence(step.label)} was interrupted after {limit}.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:500] for part in error]
            if cell is None and self._needs.used_by_answers & step.code.defines:
                self.notes.append(f"{_sentence(step.label)} raised {self._errors[step.index][0]}.")

    # Judging.

    def _check(self, session: Session, cell: ReleasedCell, step: Step) -> Verdict:
        answer = self._answer_of(cell)
        best = self._one_check(session, cell, step, [])
        for copy in answer.copies[:_MOST_COPIES] if answer else ():
            if best.outcome == "passed":
                break
            best = _better(best, self._one_check(session, cell, step, [copy]))
        return best

    def _one_check(self, session: Session, cell: ReleasedCell, step: Step, repeat: list[str]) -> Verdict:
        message = session.ask(
            {
                "do": "check",
                "name": step.label,
                "lesson": cell.lesson,
                "exercise": cell.exercise,
                "expression": cell.expression,
                "source": cell.source,
                "repeat": repeat,
                "setup": self._setup,
                "seconds": self._limits.check_seconds,
            }
        )
        seconds = float(message["seconds"])
        self._spent += seconds
        if "stopped" in message:
            return outcomes.stopped(cell, message["stopped"], message["why"], seconds)
        verdict = self._verdict(cell, message["result"], seconds)
        verdict.changed = message["result"].get("changed") is True
        verdict.seen = tuple(_seen(step.label, message["result"], session.signs))
        return verdict

    def _verdict(self, cell: ReleasedCell, result: dict[str, Any], seconds: float) -> Verdict:
        if "unjudged" in result:
            return outcomes.unjudged(cell, str(result["unjudged"])[:500])
        if not cell.exercise:
            verdict = outcomes.own_check(cell, result, seconds)
        elif not isinstance(result.get("error"), list):
            verdict = outcomes.judged(cell, result, seconds)
        else:
            verdict = self._without_answer(cell, [str(part)[:500] for part in result["error"]], seconds)
        return verdict or outcomes.unjudged(cell, "its check gave a result that no check gives")

    def _without_answer(self, cell: ReleasedCell, error: list[str], seconds: float) -> Verdict:
        """There is no answer to judge: says what became of its cell."""
        answer = self._answer_of(cell)
        verdict = outcomes.raised(cell, error, "the answer has the name that is asked for")
        if verdict.undefined == cell.expression:
            verdict.undefined = ""
            if answer is not None and answer.blank and not answer.copies:
                return outcomes.not_attempted(cell)
        if answer is not None and answer.index in self._lost:
            ended = self._lost[answer.index]
            return outcomes.stopped(cell, ended.outcome, ended.why, seconds)
        if answer is not None and answer.index in self._errors:
            return outcomes.raised(cell, self._errors[answer.index])
        return verdict

    def _late_candidates(self) -> list[Step]:
        """Checks that are worth another look at the end, when everything that was handed in has run."""
        found = []
        for step in self._rebuilt.steps:
            cell = step.released
            verdict = self._verdicts.get(cell.id) if cell and cell.role == "check" else None
            if verdict is None or verdict.outcome in ("passed", "timed out", "killed"):
                continue
            if verdict.outcome == "not attempted":
                if any(later.role == "added" and self._is_run(later) for later in self._rebuilt.steps[step.index :]):
                    found.append(step)  # which can have made the answer in a way that no text tells
            elif self._rebuilt.shuffled or verdict.undefined in self._needs.from_student:
                found.append(step)
        return found

    def _judge_late(self, session: Session) -> None:
        for step in self._late_candidates():
            cell = step.released
            assert cell is not None
            answer = self._answer_of(cell)
            for again in (None, answer.source, *answer.copies[:_MOST_COPIES]) if answer else (None,):
                if self._out_of_time() or self._verdicts[cell.id].outcome == "passed":
                    break
                verdict = self._one_check(session, cell, step, [again] if again else [])
                if verdict.earned > self._verdicts[cell.id].earned:
                    self.notes.append(
                        f"{_sentence(step.label)} was repeated at the end, because the answer needs a cell that stands "
                        "after it."
                    )
                self._verdicts[cell.id] = _better(self._verdicts[cell.id], verdict)

    # Judging again, in a clean process.

    def _judge_again(self, experiments: bool) -> None:
        for step in self._rebuilt.steps:
            cell = step.released
            if cell is None or cell.role != "check":
                continue
            first = self._verdicts.get(cell.id)
            if first is not None and not self._is_in_doubt(cell, first):
                continue
            lacking = first is not None and first.undefined in self._needs.from_experiments
            if lacking and first is not None:
                self._note_experiments(f"the check of `{cell.exercise}`", first.undefined)
            again = self._judge_alone(cell, step, experiments or lacking)
            if first is not None and again.earned > first.earned and not lacking:
                self.notes.append(
                    f"{_sentence(step.label)} was repeated with the set-up, the answer and what it needs alone, "
                    "because another cell had changed what it uses."
                )
            if first is None:
                self._verdicts[cell.id] = again
            elif first.seen and first.earned:
                # What the clean process did not show again was nothing; where it gives less, a person decides.
                if not again.seen and again.earned >= first.earned:
                    self._verdicts[cell.id] = again
            else:
                self._verdicts[cell.id] = _better(first, again)

    def _is_in_doubt(self, cell: ReleasedCell, verdict: Verdict) -> bool:
        if verdict.seen and verdict.earned:
            return True
        answer = self._answer_of(cell)
        if verdict.outcome == "passed" or answer is None or (answer.blank and not answer.copies):
            return False
        if verdict.outcome == "timed out":  # another cell of the student's may have made it slow
            added = any(step.role == "added" and self._is_run(step) for step in self._rebuilt.steps)
            return added and answer.index not in self._lost
        disturbed = bool(self._lost) or verdict.changed or answer.index in self._errors
        disturbed = disturbed or verdict.undefined in answer.code.defines
        disturbed = disturbed or verdict.outcome in ("killed", "review by hand", "not attempted")
        return disturbed or verdict.undefined in self._needs.from_experiments

    def _judge_alone(self, cell: ReleasedCell, check: Step, experiments: bool) -> Verdict:
        """Judges an answer with what it needs and nothing else; where that is too little, with all that is harmless."""
        answer = self._answer_of(cell)
        needed = self._needs.helpers(answer) if answer is not None else []
        everything = [step for step in self._rebuilt.steps if step.released is None]
        also = ["set-up", "experiment"] if experiments else ["set-up"]
        limit = self._spent + 3 * self._limits.check_seconds
        best = outcomes.unjudged(cell, "the submission as a whole had used up its time")
        for own in (needed, everything):
            cells = [step for step in self._rebuilt.steps if step.role in also or step in own]
            try:
                with self._python.session(self._bounds, self._lesson) as session:
                    for step in (*cells, *([answer] if answer is not None else [])):
                        if self._is_run(step) and self._spent < limit:
                            self._cell(session, step)
                    if self._spent < limit:
                        best = _better(best, self._check(session, cell, check))
            except Ended as ended:
                best = _better(best, outcomes.stopped(cell, ended.outcome, ended.why))
            if best.outcome == "passed" or needed == everything:
                break
        return best


def _seen(label: str, result: dict[str, Any], signs: Iterable[tuple[str, str]]) -> Iterable[str]:
    replaced, threads = _names(result.get("replaced")), _names(result.get("threads"))
    if replaced:
        yield f"In {label}: {_listed(replaced)} had been replaced while the answer was judged."
    if threads:
        yield f"During {label}: the answer left threads running beside the check."
    # Of other checks only those are told that they judge; what any cell did to the memory holds for all.
    for where, what in dict.fromkeys(signs):
        if where == label or not where.startswith("the check of"):
            yield f"In {where}: the code {what}."


def _better(one: Verdict, other: Verdict) -> Verdict:
    """The one that earned more; in doubt the first."""
    best = other if other.earned > one.earned else one
    best.seconds = one.seconds + other.seconds
    return best


def _names(value: Any) -> list[str]:
    return [str(item)[:100] for item in value[:20]] if isinstance(value, list) else []


def _listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _sentence(label: str) -> str:
    return label[:1].upper() + label[1:]

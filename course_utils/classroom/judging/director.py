"""Decides what of a rebuilt notebook is run, in which order, and what counts (``Director``).

Set-up, answers, added cells and checks run in the notebook's order. The lesson's experiments run only where something
needs them. A cell that ends its process costs itself alone: everything else is run again without it. An answer whose
check left any doubt is judged a second time, in a clean process with the set-up, the helpers that it needs and itself.
"""

from __future__ import annotations

import ast
from typing import Any

from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.judging.own_checks import own_check, separate
from course_utils.classroom.rebuild.needs import Needs
from course_utils.classroom.rebuild.reading import clean_outputs
from course_utils.classroom.rebuild.rebuild import Rebuilt, Step
from course_utils.classroom.rebuild.released import Released, ReleasedCell
from course_utils.classroom.rebuild.source import parse
from course_utils.classroom.sandbox.protocol import Ended
from course_utils.classroom.sandbox.warm_python import Session, WarmPython

_MOST_COPIES = 3  # of an answer that are judged beside it: with one for each guess, the best would always be right
_MOST_RUNS = 8  # how often a submission is begun again after a cell ended its process
_EXPERIMENTS_RUN = "The lesson's experiments were run, because {} uses `{}`."
_AROUND_BYTES = 1000  # of what a submission may print: for what outputs have around them, and the line on what is cut


class Director:
    """One submission's way through the sandbox.

    Attributes:
        reviews: what the teacher should look at, one sentence each.
        notes: what else is worth knowing, one sentence each.
    """

    def __init__(self, released: Released, rebuilt: Rebuilt, python: WarmPython, limits: Limits):
        self._released, self._rebuilt, self._python, self._limits = released, rebuilt, python, limits
        self.reviews: list[str] = []
        self.notes: list[str] = []
        self._steps = rebuilt.steps
        self._by_id = {step.released.id: step for step in self._steps if step.released}
        self._checks = [(step, step.released) for step in self._steps if step.released and step.role == "check"]
        self._verdicts: dict[str, Verdict] = {}  # by the graded cell's id
        self._errors: dict[int, list[str]] = {}  # by step: how a cell ended
        self._lost: dict[int, Ended] = {}  # by step: cells that ended their process, or had to be interrupted
        self._troubled = False  # whether the sandbox itself has ended once
        self._spent = 0.0  # seconds that the submission has used
        self._room = limits.output_bytes
        self._needs = Needs(rebuilt.steps)
        self._lesson = next((cell.lesson for cell in released.graded if cell.lesson), "")
        setup = parse("\n".join(step.source for step in self._steps if step.role == "set-up" and step.is_code))
        self._setup = "" if setup is None else ast.unparse(setup)

    def run(self) -> dict[str, Verdict]:
        """Runs what is needed. Returns a verdict for every graded cell, by its id."""
        self._judge_without_running()
        if not self._all_judged():
            needed = self._needs.experiments()
            self.notes += [_EXPERIMENTS_RUN.format(*needed)] if needed else []
            for _ in range(_MOST_RUNS):
                if self._run_once(bool(needed)):
                    break
            self._judge_again(bool(needed))
        for verdict in self._verdicts.values():
            self.reviews += verdict.seen if verdict.earned else ()
        return self._verdicts

    def _judge_without_running(self) -> None:
        # Where any code was written, an untouched stub proves nothing: another cell can have made the answer.
        for step in self._steps:
            cell = step.released
            if cell is not None and cell.role == "by hand":
                self._verdicts[cell.id] = outcomes.not_attempted(cell) if step.blank else outcomes.by_hand()
            elif cell is not None and cell.role == "check" and cell.answer and not self._rebuilt.own_code:
                self._verdicts[cell.id] = outcomes.not_attempted(cell)

    # Running everything, in the notebook's order.

    def _run_once(self, experiments: bool) -> bool:
        """Runs the notebook once; False where a cell ended the process and it is worth beginning again."""
        self._room = self._limits.output_bytes
        current: Step | None = None
        try:
            with self._python.session(self._limits, self._lesson) as session:
                for current in self._steps:
                    if not self._out_of_time() and self._is_run(current):
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
                self.notes.append(f"At {current.label}: {ended}; the submission was run again.")
                return False
            if current.released is not None and current.role == "check":
                self._verdicts[current.released.id] = outcomes.stopped(current.released, ended)
            self._lost[current.index] = ended
            said = f"{current.title} was left out: {ended}."
            (self.reviews if "channel" in str(ended) else self.notes).append(said)
            return self._out_of_time()

    def _all_judged(self) -> bool:
        return all(cell.id in self._verdicts for cell in self._released.graded)

    def _out_of_time(self) -> bool:
        return self._spent > self._limits.wall_seconds

    def _is_run(self, step: Step) -> bool:
        return bool(step.is_code and not step.is_copy and step.index not in self._lost and step.source.strip())

    def _do(self, session: Session, step: Step, experiments: bool) -> None:
        if step.released is not None and step.role == "check":
            if step.released.id not in self._verdicts:
                self._verdicts[step.released.id] = self._check(session, step.released, step)
        elif step.role != "experiment" or experiments:
            self._cell(session, step)

    def _cell(self, session: Session, step: Step) -> None:
        answer = session.ask(
            {
                "do": "cell",
                "name": step.label,
                "source": step.source,
                # A stub that nobody touched must not take the place of an answer that was made elsewhere.
                "unless": sorted(step.released.names) if step.released and step.is_stub else [],
                "seconds": self._limits.check_seconds,
                "output_bytes": max(self._room - _AROUND_BYTES, 0),
            }
        )
        self._spent += float(answer["seconds"])
        reply, item = answer["reply"], self._rebuilt.notebook["cells"][step.index]
        item["outputs"] = clean_outputs(reply.get("outputs"), max(self._room, 0))
        count = reply.get("count")
        item["execution_count"] = count if type(count) is int and 0 < count < 10**6 else None
        self._room -= sum(len(str(output)) for output in item["outputs"])
        error = reply.get("error")
        if answer.get("interrupted"):
            limit = f"{self._limits.check_seconds:g} s"
            self._lost[step.index] = Ended("timed out", f"its cell ran for more than {limit}")
            self.notes.append(f"{step.title} was interrupted after {limit}.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:500] for part in error]
            if step.role == "added" and self._needs.used_by_answers & step.code.defines:
                self.notes.append(f"{step.title} raised {self._errors[step.index][0]}.")

    # Judging.

    def _check(self, session: Session, cell: ReleasedCell, step: Step) -> Verdict:
        answer, best = self._by_id.get(cell.answer), self._one_check(session, cell, step)
        for copy in answer.copies[:_MOST_COPIES] if answer else ():
            if best.outcome == "passed":
                break
            best = best.or_better(self._one_check(session, cell, step, copy))
        return best

    def _one_check(self, session: Session, cell: ReleasedCell, step: Step, repeat: str = "") -> Verdict:
        """Judges an answer; ``repeat`` is run before."""
        message = session.ask(
            {
                "do": "check",
                "name": step.label,
                "lesson": cell.lesson,
                "exercise": cell.exercise,
                "expression": cell.expression,
                "source": cell.full,
                "separate": separate(cell),
                "repeat": repeat,
                "setup": self._setup,
                "seconds": self._limits.check_seconds,
            }
        )
        if "stopped" in message:
            verdict = outcomes.stopped(cell, Ended(message["stopped"], message["why"]))
        else:
            result = message["result"]
            verdict = self._verdict(cell, result)
            verdict.changed = result.get("changed") is True
            verdict.seen = tuple(outcomes.seen(step.label, result, session.signs))
        verdict.seconds = float(message["seconds"])
        self._spent += verdict.seconds
        return verdict

    def _verdict(self, cell: ReleasedCell, result: dict[str, Any]) -> Verdict:
        match result:
            case {"unjudged": str(why)}:
                return outcomes.unjudged(why[:500])
            case {"error": [str(kind), str(said)]}:
                return self._without_answer(cell, [kind, said])
        verdict = outcomes.judged(cell, result) if cell.exercise else own_check(cell, result)
        if verdict is None:
            return outcomes.unjudged("its check gave a result that no check gives")
        answer = self._by_id.get(cell.answer)
        if not cell.exercise and not verdict.earned and answer is not None and answer.index in self._errors:
            return outcomes.raised(cell, self._errors[answer.index])
        made = answer is None or not answer.is_stub or answer.code.defines & self._needs.from_added
        return verdict if cell.exercise or verdict.earned or made else outcomes.not_attempted(cell)

    def _without_answer(self, cell: ReleasedCell, error: list[str]) -> Verdict:
        """There is no answer to judge: says what became of its cell."""
        answer = self._by_id.get(cell.answer)
        verdict = outcomes.raised(cell, error, "the answer has the name that is asked for")
        if verdict.undefined == cell.expression:
            verdict.undefined = ""
            if answer is not None and answer.is_stub:
                return outcomes.not_attempted(cell)
        if answer is not None and answer.index in self._lost:
            return outcomes.stopped(cell, self._lost[answer.index])
        if answer is not None and answer.index in self._errors:
            return outcomes.raised(cell, self._errors[answer.index])
        return verdict

    def _late_candidates(self) -> list[tuple[Step, ReleasedCell]]:
        """Checks that are worth another look at the end, when everything that was handed in has run."""

        def is_worth(step: Step, verdict: Verdict | None) -> bool:
            if verdict is None or verdict.outcome in ("passed", "timed out", "killed"):
                return False
            if verdict.outcome == "not attempted":  # what follows can have made the answer in a way that no text tells
                return any(later.role == "added" and self._is_run(later) for later in self._steps[step.index :])
            return self._rebuilt.shuffled or verdict.undefined in self._needs.from_student

        return [(step, cell) for step, cell in self._checks if is_worth(step, self._verdicts.get(cell.id))]

    def _judge_late(self, session: Session) -> None:
        for step, cell in self._late_candidates():
            answer = self._by_id.get(cell.answer)
            for again in ("", answer.source, *answer.copies[:_MOST_COPIES]) if answer else ("",):
                before = self._verdicts[cell.id]
                if self._out_of_time() or before.outcome == "passed":
                    break
                self._verdicts[cell.id] = before.or_better(self._one_check(session, cell, step, again))
                if self._verdicts[cell.id] is not before:
                    why = "at the end, because the answer needs a cell that stands after it"
                    self.notes.append(f"{step.title} was repeated {why}.")

    # Judging again, in a clean process.

    def _judge_again(self, experiments: bool) -> None:
        for step, cell in self._checks:
            first = self._verdicts.get(cell.id)
            if first is None:
                self._verdicts[cell.id] = self._judge_alone(cell, step, experiments)
            elif self._is_in_doubt(cell, first):
                lacking = first.undefined in self._needs.from_experiments
                if lacking:
                    self.notes.append(_EXPERIMENTS_RUN.format(f"the check of `{cell.exercise}`", first.undefined))
                again = self._judge_alone(cell, step, experiments or lacking)
                if again.earned > first.earned and not lacking:
                    why = "another cell had changed what it uses"
                    how = "with the set-up, the answer and what it needs alone"
                    self.notes.append(f"{step.title} was repeated {how}, because {why}.")
                if not (first.seen and first.earned):
                    self._verdicts[cell.id] = first.or_better(again)
                elif not again.seen and again.earned >= first.earned:
                    # What the clean process did not show again was nothing; where it gives less, a person decides.
                    self._verdicts[cell.id] = again

    def _is_in_doubt(self, cell: ReleasedCell, verdict: Verdict) -> bool:
        if verdict.seen and verdict.earned:
            return True
        answer = self._by_id.get(cell.answer)
        if verdict.outcome == "passed" or answer is None or answer.is_stub:
            return False
        if verdict.outcome == "timed out":  # another cell of the student's may have made it slow
            added = any(step.role == "added" and self._is_run(step) for step in self._steps)
            return added and answer.index not in self._lost
        disturbed = bool(self._lost) or verdict.changed or answer.index in self._errors
        disturbed = disturbed or verdict.outcome in ("killed", "review by hand", "not attempted")
        return disturbed or verdict.undefined in answer.code.defines | self._needs.from_experiments

    def _judge_alone(self, cell: ReleasedCell, check: Step, experiments: bool) -> Verdict:
        """Judges an answer with what it needs and nothing else; where that is too little, with all that is harmless."""
        answer = self._by_id.get(cell.answer)
        needed = self._needs.helpers(answer) if answer is not None else []
        everything = [step for step in self._steps if step.role == "added"]
        also = ("set-up", "experiment") if experiments else ("set-up",)
        limit = self._spent + 3 * self._limits.check_seconds
        best = outcomes.unjudged("the submission as a whole had used up its time")
        for own in (needed, everything):
            cells = [step for step in self._steps if step.role in also or step in own]
            try:
                with self._python.session(self._limits, self._lesson) as session:
                    for step in (*cells, answer):
                        if step is not None and self._is_run(step) and self._spent < limit:
                            self._cell(session, step)
                    if self._spent < limit:
                        best = best.or_better(self._check(session, cell, check))
            except Ended as ended:
                best = best.or_better(outcomes.stopped(cell, ended))
            if best.outcome == "passed" or needed == everything:
                break
        return best

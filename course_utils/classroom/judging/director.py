"""Decides which cells of a rebuilt notebook are run, and what counts (``Director``).

A submission is run as a student runs it, from the top, each check behind the cell that it checks. What does not pass is
judged once more behind all cells, and once more without any cell that the student added: a helper further down, or a
cell that leaves something behind, costs nothing. The best of these counts. The lesson's own experiments are run only
where an answer asks for a name that they alone make.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from course_utils.classroom.course.source import parse, read_code
from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.judging.own_checks import own_check
from course_utils.classroom.rebuild.reading import LONGEST_OUTPUT, clean_outputs
from course_utils.classroom.rebuild.rebuild import Rebuilt, Step
from course_utils.classroom.rebuild.released import ReleasedCell, ReleasedNotebook
from course_utils.classroom.sandbox.protocol import Ended
from course_utils.classroom.sandbox.warm_python import WarmPython

_MOST_RUNS = 8  # how often cells are run again after one of them ended its process
_MOST_SAID = 500  # characters of an error that are kept
STRANGE_WORDS = "Words that no answer to this lesson needs"
# Ways to the judge. They cost nothing; a teacher reads what stands beside them.
_STRANGE = re.compile(
    r"__subclasses__|__globals__|__closure__|\b(?:f_back|gr_frame|tb_frame|cffi|ctypes|gc|greenlet|_xxsubinterpreters)\b"
    r"|course_utils\.(?:checks|classroom|lessons)"
)


class Director:
    """One submission's way through the sandbox.

    Attributes:
        notes: what became of cells, one sentence each.
        listed: what the teacher should know, at no cost in points, one sentence each.
    """

    def __init__(self, released: ReleasedNotebook, rebuilt: Rebuilt, python: WarmPython, limits: Limits):
        self._rebuilt, self._python, self._limits, self._steps = rebuilt, python, limits, rebuilt.steps
        self.notes, self.listed = list[str](), list[str]()
        self._by_id = {step.released.id: step for step in self._steps if step.released}
        self._verdicts: dict[str, Verdict] = {}  # by the graded cell's id
        self._errors: dict[int, list[str]] = {}  # by step: what cells raised in the last run
        self._ended: dict[int, Ended] = {}  # by step: cells that ended their process, or had to be interrupted
        self._shown, self._spent, self._room = set[int](), 0.0, limits.output_bytes
        self._troubled = self._left = False
        setup = parse("\n".join(step.source for step in self._steps if step.role == "set-up" and step.is_code))
        self._setup = "" if setup is None else ast.unparse(setup)

    def run(self) -> dict[str, Verdict]:
        """Runs what is needed. Returns a verdict for every graded cell, by its id."""
        for step in self._steps:
            cell = step.released
            if cell is not None and cell.role == "by hand":
                self._verdicts[cell.id] = outcomes.not_attempted(cell) if step.blank else outcomes.by_hand()
            elif cell is not None and cell.role == "check" and cell.answer and not self._rebuilt.own_code:
                self._verdicts[cell.id] = outcomes.not_attempted(cell)
        if any(self._rebuilt.own_code or cell.id not in self._verdicts for _, cell in self._open()):
            self._look()
        for _, cell in self._open():
            late = outcomes.unjudged("the submission as a whole had used up its time")
            verdict = self._verdicts.setdefault(cell.id, late)
            other = self._rebuilt.renamed.get(cell.id)
            if other and verdict.earned == 0:
                said = f"its check had been changed to look at `{other}`, and not at `{cell.expression}`"
                self._verdicts[cell.id] = outcomes.unjudged(said)
        self._list_strange_words()
        return self._verdicts

    def _look(self) -> None:
        """Runs and judges, as often as may change anything."""
        roles = {"set-up", "answer", "by hand", "added"}
        self._in_order(roles)
        made = {n for step in self._steps if step.role == "experiment" for n in read_code(step.source).defines}
        if lacking := made.intersection(verdict.undefined for verdict in self._verdicts.values()):
            self.notes.append(f"The lesson's experiments were run, because an answer uses `{min(lacking)}`.")
            roles.add("experiment")
            self._in_order(roles)
        if self._open() and any(step.role == "added" for step in self._steps):
            self._ended = {}  # what ended in an answer's cell may be what one of these cells had set up
            self._in_order(roles - {"by hand", "added"})

    def _list_strange_words(self) -> None:
        given = " ".join(step.released.source for step in self._steps if step.released)
        own = " ".join(step.source for step in self._steps if step.from_student and step.is_code)
        if words := sorted({*_STRANGE.findall(own)} - {*_STRANGE.findall(given)}):
            self.listed.append(f"{STRANGE_WORDS}: {', '.join(words)}.")

    def _open(self) -> list[tuple[Step, ReleasedCell]]:
        """The checks that have not been passed yet."""
        checks = [(step, step.released) for step in self._steps if step.released and step.role == "check"]
        done = {name for name, verdict in self._verdicts.items() if verdict.outcome == "passed"}
        return [(step, cell) for step, cell in checks if cell.id not in done]

    def _in_order(self, roles: set[str]) -> None:
        """Runs the cells of these roles in the notebook's order, and judges. A cell that ends the process is left out,
        and all begins again."""
        judged: dict[str, int] = {}  # check -> how often, in this call
        for times in range(_MOST_RUNS + 1):
            if times == _MOST_RUNS:
                roles = roles - {"added"}
            current: Step | None = None
            self._errors = {}
            try:
                with self._python.submission(self._limits):
                    for again in (False, True):
                        for current in self._steps:
                            cell = current.released
                            if self._spent > self._limits.wall_seconds:
                                return
                            if cell is not None and current.role == "check":
                                if judged.get(cell.id, 0) <= again and (current, cell) in self._open():
                                    judged[cell.id] = 1 + again
                                    self._note(cell, self._check(cell, current))
                            elif not again and current.role in roles and self._is_run(current):
                                self._cell(current)
                return
            except Ended as ended:
                assert current is not None
                if current.role == "check" and current.released and (ended.outcome or self._troubled):
                    self._note(current.released, outcomes.stopped(current.released, ended))
                elif not ended.outcome and not self._troubled:
                    self._troubled = True  # once that may be bad luck; where it happens again, it is the cell's doing
                    judged.clear()
                    self.notes.append(f"At {current.label}: {ended}; the submission was run again.")
                else:
                    self._ended[current.index] = ended
                    self.notes.append(f"{current.title} was left out: {ended}.")

    def _note(self, cell: ReleasedCell, verdict: Verdict) -> None:
        before = self._verdicts.get(cell.id)
        # A name that was not there then may be there now.
        self._verdicts[cell.id] = verdict if before is None or before.undefined else before.or_better(verdict)

    def _is_run(self, step: Step) -> bool:
        return bool(step.is_code and step.source.strip() and step.index not in self._ended)

    def _cell(self, step: Step) -> None:
        answer = self._python.ask(
            {
                "do": "cell",
                "source": step.source,
                # A stub that nobody touched must not take the place of an answer that was made elsewhere.
                "unless": sorted(step.released.names) if step.released and step.is_stub else [],
                "seconds": self._limits.check_seconds,
                # The shell adds a line that says how much it left out.
                "output_bytes": max(min(self._room, LONGEST_OUTPUT) - 1000, 0),
            }
        )
        self._spent += float(answer["seconds"])
        reply = answer["reply"]
        if step.index not in self._shown:
            self._shown.add(step.index)
            item = self._rebuilt.notebook["cells"][step.index]
            item["outputs"] = clean_outputs(reply.get("outputs"), self._room)
            item["execution_count"] = len(self._shown)
            self._room -= sum(len(str(output)) for output in item["outputs"])
        error = reply.get("error")
        if answer.get("interrupted"):
            said = f"ran for more than {self._limits.check_seconds:g} s"
            self._ended[step.index] = Ended("timed out", f"its cell {said}")
            self.listed.append(f"{step.title} {said} and was interrupted, which takes its time at each grading.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:_MOST_SAID] for part in error]

    # Judging.

    def _check(self, cell: ReleasedCell, step: Step) -> Verdict:
        message = self._python.ask(
            {
                "do": "check",
                "lesson": cell.lesson,
                "exercise": cell.exercise,
                "expression": cell.expression,
                "source": cell.full,
                "setup": self._setup,
                "seconds": self._limits.check_seconds,
            }
        )
        self._spent += float(message["seconds"])
        if "stopped" in message:
            verdict = outcomes.stopped(cell, Ended(message["stopped"], message["why"]))
        else:
            result = message["result"]
            verdict = self._verdict(cell, result)
            lacking = [said for kind, said in self._errors.values() if kind == "ModuleNotFoundError"]
            if verdict.raised and lacking:
                verdict = outcomes.unjudged(f"{lacking[0]} on this machine; install it and grade again")
            verdict.reviews = tuple(outcomes.reviews(verdict, step.label, result))
            self._left |= bool(message["left"])  # in whichever look: it may have needed them
            if self._left and verdict.raised:
                said = "it raised, and threads or processes that cells had started had ended."
                verdict.reviews += (f"In {step.label}: {said}",)
        verdict.seconds = float(message["seconds"])
        return verdict

    def _verdict(self, cell: ReleasedCell, result: dict[str, Any]) -> Verdict:
        answer = self._by_id.get(cell.answer)
        match result:
            case {"unjudged": str(why)}:
                return outcomes.unjudged(why[:_MOST_SAID])
            case {"error": [str(kind), str(said)]}:
                verdict = outcomes.raised(cell, [kind, said], "the answer has the name that is asked for")
                is_missing = verdict.undefined == cell.expression
                verdict.undefined = "" if is_missing else verdict.undefined
            case _:
                found = outcomes.judged(cell, result) if cell.exercise else own_check(cell, result)
                if found is None:
                    return outcomes.unjudged("its check gave a result that no check gives")
                verdict, is_missing = found, not cell.exercise and not found.earned
        if answer is None or not (is_missing or "error" in result):
            return verdict
        # There is no answer to judge: what became of its cell is told.
        if is_missing and answer.blank:
            return outcomes.not_attempted(cell)
        if "error" in result and answer.index in self._ended:
            return outcomes.stopped(cell, self._ended[answer.index])
        return outcomes.raised(cell, self._errors[answer.index]) if answer.index in self._errors else verdict

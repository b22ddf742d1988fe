"""Grades one submission at a time, in the sandbox (``Grader``, ``Limits``): decides which cells of its rebuilt notebook
are run, and what counts (``Director``).

The notebook is rebuilt here, from data alone; its code runs in a fork of one warm Python behind bubblewrap; scores come
back through the supervisor and become cards here.

A submission is run as a student runs it, from the top, each check behind the cell that it checks. What does not pass is
judged once more behind all cells, and once more without any cell that the student added, where that may change it: a
helper further down, or a cell that leaves something behind, costs nothing. The best of these counts. The lesson's own
experiments are run only where an answer asks for a name that is not there.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from course_utils.classroom.course.source import BUILTINS, parse
from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.judging.results import ExerciseResult, Report
from course_utils.classroom.rebuild.reading import ReleasedCell, outputs_of, read_released
from course_utils.classroom.rebuild.rebuild import Rebuilt, Step, rebuild
from course_utils.classroom.sandbox.supervisor import Ended
from course_utils.classroom.sandbox.warm_python import Limits as Limits
from course_utils.classroom.sandbox.warm_python import WarmPython

_MOST_RUNS = 8  # how often cells are run again after one of them ended its process
_MOST_SAID = 500  # characters of an error that are kept
# Ways to the judge. They cost nothing; a teacher reads what stands beside them.
_STRANGE = re.compile(
    r"__subclasses__|__globals__|__closure__|\b(?:f_back|gr_frame|tb_frame|cffi|ctypes|gc|greenlet|_xxsubinterpreters)\b"
    r"|course_utils\.(?:checks|classroom|lessons)"
)
_released = lru_cache(maxsize=32)(read_released)


class Director:
    """One submission's way through the sandbox. What became of its cells is ``listed`` in what was rebuilt."""

    def __init__(self, rebuilt: Rebuilt, python: WarmPython, limits: Limits):
        self._rebuilt, self._steps, self._listed = rebuilt, rebuilt.steps, rebuilt.listed
        self._python, self._limits = python, limits
        self._released = {step.released.id: step for step in self._steps if step.released}
        self._checks = {s.index: s.released for s in self._steps if s.released and s.role == "check"}
        self._verdicts: dict[str, Verdict] = {}  # by the graded cell's id
        self._errors: dict[int, list[str]] = {}  # by step: what cells raised in the last run
        self._ended: dict[int, Ended] = {}  # by step: cells that ended their process, or had to be interrupted
        self._shown, self._spent, self._room = set[int](), 0.0, limits.output_bytes
        self._troubled = self._left = False
        self._code = {step.index: rebuilt.read(step.source) for step in self._steps if step.is_code}
        often = Counter(name for code in self._code.values() for name in code.defines)
        self._shared = BUILTINS.union(name for name, times in often.items() if times > 1)
        setup = parse("\n".join(step.source for step in self._steps if step.role == "set-up" and step.is_code))
        self._setup = "" if setup is None else ast.unparse(setup)

    def run(self) -> dict[str, Verdict]:
        """Runs what is needed. Returns a verdict for every graded cell, by its id."""
        for step in self._steps:
            if (cell := step.released) and step.role == "by hand":
                written = Verdict(0.0, "review by hand", text="A person reads and marks it.")
                self._verdicts[cell.id] = outcomes.not_attempted(cell) if step.blank else written
        roles = {"set-up", "answer", "by hand", "added"}
        self._in_order(roles)
        if any(verdict.undefined for verdict in self._verdicts.values()):  # the lesson's experiments may make it
            roles.add("experiment")
            self._in_order(roles)
        added = [step.index for step in self._steps if step.role == "added" and step.is_code]
        if any(map(self._is_open, self._checks.values())) and any(map(self._acts, added)):
            self._ended = {}  # what ended in an answer's cell may be what one of these cells had set up
            self._in_order(roles - {"by hand", "added"})
        for cell in self._checks.values():
            late = outcomes.unjudged("the submission as a whole had used up its time")
            verdict = self._verdicts.setdefault(cell.id, late)
            other = self._rebuilt.renamed.get(cell.id)
            if other and verdict.earned == 0:
                said = f"its check had been changed to look at `{other}`, and not at `{cell.expression}`"
                self._verdicts[cell.id] = outcomes.unjudged(said)
        given = " ".join(step.released.source for step in self._steps if step.released)
        own = " ".join(step.source for step in self._steps if step.from_student and step.is_code)
        if words := sorted({*_STRANGE.findall(own)} - {*_STRANGE.findall(given)}):
            self._listed.append(f"Words that no answer to this lesson needs: {', '.join(words)}.")
        return self._verdicts

    def _is_open(self, cell: ReleasedCell) -> bool:
        return cell.id not in self._verdicts or self._verdicts[cell.id].outcome != "passed"

    def _acts(self, index: int, used: Collection[str] = ()) -> bool:
        """Whether a cell may change what others do: any but one that only defines what no other one defines or used."""
        code = self._code[index]
        return not code.only_defines or not code.defines.isdisjoint(self._shared.union(used))

    def _in_order(self, roles: set[str]) -> None:
        """Runs the cells of these roles in the notebook's order, and judges: each check where it stands and, where that
        is not passed and a later cell may change that, once more at the end. A cell that ends the process is left out,
        and all begins again."""
        is_run = {step.index for step in self._steps if step.role in roles and step.is_code and step.source.strip()}
        order = [step for step in self._steps if step.index in is_run.union(self._checks)]
        used = set[str]().union(*(self._code[index].uses for index in is_run))
        latest = max((index for index in is_run if self._acts(index, used)), default=0)
        order += [self._steps[index] for index in self._checks if index < latest]
        judged, place = set[int](), 0
        for _ in range(_MOST_RUNS):
            self._errors = {}
            try:
                with self._python.submission(self._limits):
                    for place, step in enumerate(order):
                        cell = self._checks.get(step.index)
                        if self._spent > self._limits.submission_seconds:
                            return
                        if cell is None and step.index not in self._ended:
                            self._cell(step)
                        elif cell is not None and place not in judged and self._is_open(cell):
                            judged.add(place)
                            self._note(cell, self._check(cell, step))
                return
            except Ended as ended:
                step, cell = order[place], self._checks.get(order[place].index)
                if cell is not None and (ended.outcome or self._troubled):
                    self._note(cell, outcomes.stopped(cell, ended))
                elif not ended.outcome and not self._troubled:
                    self._troubled = True  # once that may be bad luck; where it happens again, it is the cell's doing
                    judged.clear()
                    self._listed.append(f"At {step.label}: {ended}; the submission was run again.")
                else:
                    self._ended[step.index] = ended
                    self._listed.append(f"Left out: {step.label}; {ended}.")

    def _note(self, cell: ReleasedCell, verdict: Verdict) -> None:
        """Keeps the better verdict, in doubt the older one: where a name was missing, it may be there now."""
        before = self._verdicts.get(cell.id)
        if before is None or before.undefined or verdict.earned > before.earned:
            self._verdicts[cell.id] = verdict

    def _cell(self, step: Step) -> None:
        answer = self._python.ask({"do": "cell", "seconds": self._limits.check_seconds, "source": step.source})
        self._spent += float(answer["seconds"])
        if step.index not in self._shown:
            self._shown.add(step.index)
            item = self._rebuilt.notebook["cells"][step.index]
            item["outputs"] = outputs_of(answer["reply"], self._room)
            item["execution_count"] = len(self._shown)
            self._room -= sum(len(str(output)) for output in item["outputs"])
        error = answer["reply"].get("error")
        if answer["interrupted"]:
            said = f"ran for more than {self._limits.check_seconds:g} s"
            self._ended[step.index] = Ended("timed out", f"its cell {said}")
            self._listed.append(f"Interrupted: {step.label}; it {said}.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:_MOST_SAID] for part in error]

    def _check(self, cell: ReleasedCell, step: Step) -> Verdict:
        asked = {name: getattr(cell, name) for name in ("lesson", "exercise", "expression", "full")}
        answer = self._python.ask({"do": "check", "setup": self._setup, "seconds": self._limits.check_seconds} | asked)
        self._spent += float(answer["seconds"])
        if "stopped" in answer:
            return outcomes.stopped(cell, Ended(answer["stopped"], answer["why"]))
        result = answer["result"]
        verdict = self._verdict(cell, result)
        own = verdict.raised.partition("ModuleNotFoundError: ")[2]  # before what other cells lack
        lacking = [own] if own else [said for kind, said in self._errors.values() if kind == "ModuleNotFoundError"]
        if verdict.raised and lacking:
            verdict = outcomes.unjudged(f"{'; '.join(sorted({*lacking}))} where this is graded")
        verdict.reviews = tuple(outcomes.reviews(verdict, step.label, result))
        self._left |= bool(answer["left"])  # in whichever look: it may have needed them
        if self._left and verdict.raised:
            said = "it raised, and threads or processes that cells had started had ended."
            verdict.reviews += (f"In {step.label}: {said}",)
        return verdict

    def _verdict(self, cell: ReleasedCell, result: dict[str, Any]) -> Verdict:
        answer = self._released.get(cell.answer)
        match result:
            case {"unjudged": str(why)}:
                return outcomes.unjudged(why[:_MOST_SAID])
            case {"error": [str(kind), str(said)]}:
                verdict = outcomes.raised(cell, [kind, said], "the answer has the name that is asked for")
                is_missing = verdict.undefined == cell.expression
            case _:
                verdict = outcomes.judged(cell, result) if cell.exercise else outcomes.own_check(cell, result)
                is_missing = not cell.exercise and not verdict.earned
        if answer is None or not (is_missing or "error" in result):
            return verdict
        # There is no answer to judge: what became of its cell is told.
        if is_missing and answer.blank:
            return outcomes.not_attempted(cell)
        if "error" in result and answer.index in self._ended:
            return outcomes.stopped(cell, self._ended[answer.index])
        return outcomes.raised(cell, self._errors[answer.index]) if answer.index in self._errors else verdict


class Grader:
    """Turns submissions into reports. Use it in a ``with`` block, at whose end its warm Python ends.

    Args:
        limits: of every submission.
    """

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008  frozen: one serves all
        self.limits = limits
        self._python = WarmPython()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *error: object) -> None:
        self._python.end()

    def grade(self, released: str, submitted: bytes | None, *, student: str, assignment: str) -> Report:
        """Grades a submission. Nothing that its cells do makes this raise.

        Args:
            released: the released notebook as text.
            submitted: what was handed in; None where nothing was.
            student: nbgrader's student id, for the report.
            assignment: the assignment's name, for the report.

        Raises:
            ValueError: the released notebook is none.
            SandboxMissing: (an ``OSError``) the warm Python cannot be started; the message says what to do.
        """
        notebook = _released(released)
        rebuilt = rebuild(notebook, submitted)
        results = {cell.id: Verdict(0.0, "unreadable", text=rebuilt.unread) for cell in notebook.graded}
        if not rebuilt.unread:
            results = Director(rebuilt, self._python, self.limits).run()
        exercises = tuple(outcomes.result_of(cell, results[cell.id]) for cell in notebook.graded)
        reviews = list[str]()
        for cell in notebook.graded:
            unjudged = cell.role == "check" and results[cell.id].outcome == "review by hand"
            reviews += results[cell.id].reviews or [f"{cell.name}: {results[cell.id].text}"] * unjudged
        return Report(
            student=student,
            assignment=assignment,
            exercises=exercises,
            repairs=tuple(rebuilt.repairs),
            reviews=tuple(dict.fromkeys(reviews)),
            listed=tuple(dict.fromkeys(rebuilt.listed)),
            notebook=_with_cards(rebuilt.notebook, exercises),
        )


def _with_cards(notebook: dict[str, Any], exercises: tuple[ExerciseResult, ...]) -> str:
    """The executed notebook as text, each check cell with its card, as a kernel would have shown it."""
    cards = {result.grade_id: result for result in exercises}
    for number, cell in enumerate(notebook["cells"], 1):
        result = cards.get(cell["metadata"].get("nbgrader", {}).get("grade_id"))
        if result is not None and cell["cell_type"] == "code":
            cell["execution_count"] = number
            data = {"text/html": result.html, "text/plain": repr(float(result.earned))}
            shown = {"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}}
            cell["outputs"] = [shown]
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"

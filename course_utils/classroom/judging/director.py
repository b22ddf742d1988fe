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

from course_utils.classroom.course.source import deleted_first, parse
from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.judging.own_checks import own_check
from course_utils.classroom.rebuild.reading import clean_outputs
from course_utils.classroom.rebuild.rebuild import Rebuilt, Step
from course_utils.classroom.rebuild.released import ReleasedCell, ReleasedNotebook
from course_utils.classroom.sandbox.protocol import Ended
from course_utils.classroom.sandbox.warm_python import Session, WarmPython

_MOST_VERSIONS = 3  # of an answer, beside the first, that are judged: with one for each guess, the best would be right
_MOST_RUNS = 8  # how often cells are run again after one of them ended its process
_AROUND_BYTES = 1000  # of what a submission may print: for what outputs have around them
INTERRUPTED, STRANGE_WORDS = "was interrupted after", "Words that no answer to this lesson needs"
# Ways to the judge. They cost nothing; a teacher reads what stands beside them.
_STRANGE = re.compile(
    r"__subclasses__|__globals__|__closure__|\b(?:f_back|gr_frame|tb_frame|cffi|ctypes|gc|greenlet|_xxsubinterpreters)\b"
    r"|course_utils\.(?:checks|classroom|lessons)"
)


class Director:
    """One submission's way through the sandbox.

    Attributes:
        reviews: what the teacher should look at, one sentence each.
        notes: what else is worth knowing, one sentence each.
    """

    def __init__(self, released: ReleasedNotebook, rebuilt: Rebuilt, python: WarmPython, limits: Limits):
        self._rebuilt, self._python, self._limits, self._steps = rebuilt, python, limits, rebuilt.steps
        self.reviews, self.notes = list[str](), list[str]()
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
        if self._rebuilt.own_code or any(cell.id not in self._verdicts for _, cell in self._open()):
            self._in_order({"set-up", "answer", "by hand", "added"})
            used = {name for step in self._steps if step.role == "answer" for name in step.code.uses}
            for step in self._steps:
                if step.role == "added" and step.index in self._errors and used & step.code.defines:
                    self.notes.append(f"{step.title} raised {self._errors[step.index][0]}.")
            made = {name for step in self._steps if step.role == "experiment" for name in step.code.defines}
            lacking = {v.undefined for v in self._verdicts.values() if v.undefined in made}
            if lacking:
                self.notes.append(f"The lesson's experiments were run, because an answer uses `{min(lacking)}`.")
                self._in_order({"set-up", "answer", "by hand", "added", "experiment"})
            if self._open() and any(step.role == "added" for step in self._steps):
                self._ended = {}  # what ended in an answer's cell may be what one of these cells had set up
                self._in_order({"set-up", "answer", *({"experiment"} if lacking else ())})
        for _, cell in self._open(every=True):
            self._verdicts.setdefault(cell.id, outcomes.unjudged("the submission as a whole had used up its time"))
        for verdict in self._verdicts.values():
            self.reviews += verdict.for_a_person
        given = " ".join(step.released.source for step in self._steps if step.released)
        own = " ".join(step.source for step in self._steps if step.from_student and step.is_code)
        if words := sorted({*_STRANGE.findall(own)} - {*_STRANGE.findall(given)}):
            self.notes.append(f"{STRANGE_WORDS}: {', '.join(words)}.")
        return self._verdicts

    def _open(self, every: bool = False) -> list[tuple[Step, ReleasedCell]]:
        """The checks that have not been passed yet."""
        checks = [(step, step.released) for step in self._steps if step.released and step.role == "check"]
        done = {name for name, verdict in self._verdicts.items() if verdict.outcome == "passed"}
        return [(step, cell) for step, cell in checks if every or cell.id not in done]

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
                with self._python.session(self._limits) as session:
                    for again in (False, True):
                        for current in self._steps:
                            cell = current.released
                            if self._spent > self._limits.wall_seconds:
                                return
                            if cell is not None and current.role == "check":
                                if judged.get(cell.id, 0) <= again and (current, cell) in self._open():
                                    judged[cell.id] = 1 + again
                                    self._note(cell, self._check(session, cell, current))
                            elif not again and current.role in roles and self._is_run(current):
                                self._cell(session, current)
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
        ended = self._ended.get(step.index)
        return bool(step.is_code and not step.is_copy and step.source.strip() and ended is None)

    def _cell(self, session: Session, step: Step) -> None:
        answer = session.ask(
            {
                "do": "cell",
                "name": step.label,
                "source": step.source,
                # A stub that nobody touched must not take the place of an answer that was made elsewhere.
                "deletes": sorted(deleted_first(step.source)),
                "unless": sorted(step.released.names) if step.released and step.is_stub else [],
                "seconds": self._limits.check_seconds,
                "output_bytes": max(self._room - _AROUND_BYTES, 0),
            }
        )
        self._spent += float(answer["seconds"])
        reply = answer["reply"]
        if step.index not in self._shown:
            self._shown.add(step.index)
            item = self._rebuilt.notebook["cells"][step.index]
            item["outputs"] = clean_outputs(reply.get("outputs"), max(self._room, 0))
            item["execution_count"] = len(self._shown)
            self._room -= sum(len(str(output)) for output in item["outputs"])
        error = reply.get("error")
        if answer.get("interrupted"):
            limit = f"{self._limits.check_seconds:g} s"
            self._ended[step.index] = Ended("timed out", f"its cell ran for more than {limit}")
            self.notes.append(f"{step.title} {INTERRUPTED} {limit}.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:500] for part in error]

    # Judging.

    def _check(self, session: Session, cell: ReleasedCell, step: Step) -> Verdict:
        """Judges all versions of an answer, and takes the best."""
        answer, best = self._by_id.get(cell.answer), None
        for version in ("", *(answer.copies[:_MOST_VERSIONS] if answer else ())):
            if best is None or best.outcome != "passed":
                verdict = self._one_check(session, cell, step, version)
                best = verdict if best is None else best.or_better(verdict)
        assert best is not None
        return best

    def _one_check(self, session: Session, cell: ReleasedCell, step: Step, repeat: str) -> Verdict:
        """Judges an answer; ``repeat`` is run before."""
        message = session.ask(
            {
                "do": "check",
                "name": step.label,
                "lesson": cell.lesson,
                "exercise": cell.exercise,
                "expression": cell.expression,
                "source": cell.full,
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
            lacking = [said for kind, said in self._errors.values() if kind == "ModuleNotFoundError"]
            if verdict.raised and lacking:
                verdict = outcomes.unjudged(f"{lacking[0]} on this machine; install it and grade again")
            verdict.suspicious = tuple(outcomes.suspicious(step.label, result))
            verdict.refused = tuple(outcomes.refused(step.label, result))
            self._left |= bool(message["left"])  # in whichever look: it may have needed them
            if self._left and verdict.raised:
                verdict.refused += (
                    f"In {step.label}: it raised, and threads or processes that cells had started had ended.",
                )
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
        if not cell.exercise and not verdict.earned and answer is not None:
            if answer.index in self._errors:
                return outcomes.raised(cell, self._errors[answer.index])
            if answer.is_stub:
                return outcomes.not_attempted(cell)
        return verdict

    def _without_answer(self, cell: ReleasedCell, error: list[str]) -> Verdict:
        """There is no answer to judge: says what became of its cell."""
        answer = self._by_id.get(cell.answer)
        verdict = outcomes.raised(cell, error, "the answer has the name that is asked for")
        if verdict.undefined == cell.expression:
            verdict.undefined = ""
            if answer is not None and answer.is_stub:
                return outcomes.not_attempted(cell)
        if answer is not None and answer.index in self._ended:
            return outcomes.stopped(cell, self._ended[answer.index])
        if answer is not None and answer.index in self._errors:
            return outcomes.raised(cell, self._errors[answer.index])
        return verdict

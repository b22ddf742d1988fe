"""Decides which cells of a rebuilt notebook are run, and what counts (``Director``).

Each answer is judged alone: in a process of its own, with the set-up, the student's cells that it uses, and itself. So
no cell costs an answer that does not need it, for example by ``torch.set_grad_enabled(False)``. What an answer uses is
read from its text. Cells that no answer uses are then run once, all together, for what they show; answers that did not
pass are judged once more behind them, since a text does not tell all: ``exec`` can define a name, too.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from course_utils.classroom.course.source import deleted_first, parse
from course_utils.classroom.judging import outcomes
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.outcomes import Verdict
from course_utils.classroom.judging.own_checks import own_check, separate
from course_utils.classroom.rebuild.needs import Needs
from course_utils.classroom.rebuild.reading import clean_outputs
from course_utils.classroom.rebuild.rebuild import Rebuilt, Step
from course_utils.classroom.rebuild.released import ReleasedCell, ReleasedNotebook
from course_utils.classroom.sandbox.protocol import Ended
from course_utils.classroom.sandbox.warm_python import Session, WarmPython

_MOST_VERSIONS = 3  # of an answer, beside the first, that are judged: with one for each guess, the best would be right
_MOST_RUNS = 8  # how often cells are run again after one of them ended its process
_EXPERIMENTS_RUN = "The lesson's experiments were run, because {} uses `{}`."
_ENDED_BEFORE = (
    "In {}: the answer raised, and {} processes that cells had started, which it may need, had ended before."
)
INTERRUPTED = "was interrupted after"
_OUT_OF_TIME = "the submission as a whole had used up its time"
_AROUND_BYTES = 1000  # of what a submission may print: for what outputs have around them, and the line on what is cut


class Director:
    """One submission's way through the sandbox.

    Attributes:
        reviews: what the teacher should look at, one sentence each.
        notes: what else is worth knowing, one sentence each.
    """

    def __init__(self, released: ReleasedNotebook, rebuilt: Rebuilt, python: WarmPython, limits: Limits):
        self._released, self._rebuilt, self._python, self._limits = released, rebuilt, python, limits
        self.reviews: list[str] = []
        self.notes: list[str] = []
        self._steps = rebuilt.steps
        self._by_id = {step.released.id: step for step in self._steps if step.released}
        self._checks = [(step, step.released) for step in self._steps if step.released and step.role == "check"]
        self._verdicts: dict[str, Verdict] = {}  # by the graded cell's id
        self._errors: dict[int, list[str]] = {}  # by step: what cells raised in the process that is running
        self._last_errors: dict[int, list[str] | None] = {}  # the same, of the last time that each cell was run
        self._lost: dict[int, Ended] = {}  # by step: cells that ended their process
        self._interrupted: dict[int, Ended] = {}  # by step: cells that had to be interrupted
        self._shown = set[int]()  # steps that have run
        self._troubled = False  # whether the sandbox itself has ended once
        self._spent = 0.0  # seconds that the submission has used
        self._room = limits.output_bytes
        self._experiments = False  # whether an answer needed the lesson's experiments
        self._needs = Needs(rebuilt.steps)
        self._lesson = next((cell.lesson for cell in released.graded if cell.lesson), "")
        setup = parse("\n".join(step.source for step in self._steps if step.role == "set-up" and step.is_code))
        self._setup = "" if setup is None else ast.unparse(setup)

    def run(self) -> dict[str, Verdict]:
        """Runs what is needed. Returns a verdict for every graded cell, by its id."""
        self._judge_without_running()
        for step, cell in self._checks:
            answer = self._by_id.get(cell.answer)
            if cell.id not in self._verdicts and not (answer and answer.is_stub):
                self._judge_alone(step, cell, answer)
        self._judge_together()
        for step in self._steps:
            error = self._last_errors.get(step.index)
            if error and step.role == "added" and self._needs.used_by_answers & step.code.defines:
                self.notes.append(f"{step.title} raised {error[0]}.")
        for verdict in self._verdicts.values():
            self.reviews += verdict.for_a_person
        return self._verdicts

    def _judge_without_running(self) -> None:
        # Where any code was written, an untouched stub proves nothing: another cell can have made the answer.
        for step in self._steps:
            cell = step.released
            if cell is not None and cell.role == "by hand":
                self._verdicts[cell.id] = outcomes.not_attempted(cell) if step.blank else outcomes.by_hand()
            elif cell is not None and cell.role == "check" and cell.answer and not self._rebuilt.own_code:
                self._verdicts[cell.id] = outcomes.not_attempted(cell)

    def _judge_alone(self, check: Step, cell: ReleasedCell, answer: Step | None) -> None:
        """Judges an answer with what it needs and nothing else."""
        needed = [*self._needs.of(check, answer), *([answer] if answer else [])]
        name = self._needs.experiment(needed if cell.exercise else [*needed, check])
        if name:
            uses = answer.label if answer is not None and name in answer.code.uses else check.label
            self.notes.append(_EXPERIMENTS_RUN.format(uses, name))
            self._experiments = True
        self._run(needed, [(check, cell)], bool(name))
        lacking = self._verdicts[cell.id].undefined
        if not name and lacking in self._needs.from_experiments:
            self.notes.append(_EXPERIMENTS_RUN.format(f"the check of `{cell.exercise}`", lacking))
            self._experiments = True
            self._run(needed, [(check, cell)], True)

    def _judge_together(self) -> None:
        """Runs all that the student wrote, in the notebook's order, and judges behind it what may be better so."""
        own = [step for step in self._steps if step.role in ("answer", "added", "by hand")]
        own = [step for step in own if self._is_run(step) and step.index not in self._interrupted]
        again = [(step, cell) for step, cell in self._checks if self._may_be_better(cell, own)]
        stubs = any(cell.id not in self._verdicts for _, cell in again)
        unseen = any(step.from_student and not step.blank and step.index not in self._shown for step in own)
        raised = any(cell.id in self._verdicts and self._verdicts[cell.id].raised for _, cell in again)
        if stubs or unseen or raised:
            self._run(own, again, self._experiments, together=True)

    def _may_be_better(self, cell: ReleasedCell, own: Sequence[Step]) -> bool:
        verdict, answer = self._verdicts.get(cell.id), self._by_id.get(cell.answer)
        if verdict is None:
            return True
        if cell.role != "check" or verdict.outcome in ("passed", "timed out", "killed"):
            return False
        return any(step.role == "added" for step in own) and not (answer and answer.is_stub)

    # Running cells, and checks behind them, in one process.

    def _run(
        self,
        own: Sequence[Step],
        checks: Sequence[tuple[Step, ReleasedCell]],
        experiments: bool,
        together: bool = False,
    ) -> None:
        """Runs the set-up and these cells, and judges. A cell that ends the process is left out, and all begins again;
        in the end without any cell that the student added.

        Args:
            own: the student's cells.
            checks: what to judge behind them.
            experiments: whether to run the lesson's experiments, too.
            together: whether to run each answer once more before it is judged, behind all other cells.
        """
        roles = ("set-up", "experiment") if experiments else ("set-up",)
        before = [step for step in self._steps if step.role in roles or step in own]
        left = list(checks)
        for times in range(_MOST_RUNS + 1):
            if self._is_out_of_time():
                break
            if times == _MOST_RUNS:
                before = [step for step in before if step.role != "added"]
            self._errors = {}
            current: Step | None = None
            try:
                with self._python.session(self._limits, self._lesson) as session:
                    for current in before:
                        if self._is_run(current) and not self._is_out_of_time():
                            self._cell(session, current)
                    while left and not self._is_out_of_time():
                        current, cell = left[0]
                        self._note(cell, self._check(session, cell, current, together))
                        left.pop(0)
                break
            except Ended as ended:
                if left and current is left[0][0] and (ended.outcome or self._troubled):
                    self._note(left[0][1], outcomes.stopped(left.pop(0)[1], ended))
                self._lose(current, ended)
        for _, cell in left:
            self._note(cell, outcomes.unjudged(_OUT_OF_TIME))

    def _note(self, cell: ReleasedCell, verdict: Verdict) -> None:
        before = self._verdicts.get(cell.id)
        self._verdicts[cell.id] = verdict if before is None else before.or_better(verdict)

    def _lose(self, step: Step | None, ended: Ended) -> None:
        if not ended.outcome and not self._troubled:
            self._troubled = True  # once that may be bad luck; where it happens again, it is the cell's doing
            where = f"At {step.label}: " if step else ""
            self.notes.append(f"{where}{ended}; the submission was run again.")
        elif step is not None:
            self._lost[step.index] = ended
            said = f"{step.title} was left out: {ended}."
            (self.reviews if "channel" in str(ended) else self.notes).append(said)

    def _is_out_of_time(self) -> bool:
        return self._spent > self._limits.wall_seconds

    def _is_run(self, step: Step) -> bool:
        return bool(step.is_code and not step.is_copy and step.index not in self._lost and step.source.strip())

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
            self._interrupted[step.index] = Ended("timed out", f"its cell ran for more than {limit}")
            self.notes.append(f"{step.title} {INTERRUPTED} {limit}.")
        elif isinstance(error, list) and len(error) == 2:
            self._errors[step.index] = [str(part)[:500] for part in error]
        self._last_errors[step.index] = self._errors.get(step.index)

    # Judging.

    def _check(self, session: Session, cell: ReleasedCell, step: Step, together: bool) -> Verdict:
        """Judges all versions of an answer, and takes the best."""
        answer, best = self._by_id.get(cell.answer), None
        first = answer.source if answer is not None and together and not answer.is_stub and self._is_run(answer) else ""
        for version in (first, *(answer.copies[:_MOST_VERSIONS] if answer else ())):
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
            verdict.suspicious = tuple(outcomes.suspicious(step.label, result, session.signs))
            verdict.refused = tuple(outcomes.refused(step.label, session.signs))
            if message["left"] and verdict.raised:
                verdict.refused += (_ENDED_BEFORE.format(step.label, message["left"]),)
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
        ended = self._lost | self._interrupted
        if answer is not None and answer.index in ended:
            return outcomes.stopped(cell, ended[answer.index])
        if answer is not None and answer.index in self._errors:
            return outcomes.raised(cell, self._errors[answer.index])
        return verdict

"""Which cells a submission's answers use (``Needs``), from their text alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from course_utils.classroom.course.source import read_code
from course_utils.classroom.rebuild.rebuild import Step


class Needs:
    """Who defines and who uses which names in a rebuilt notebook.

    Attributes:
        from_experiments: names that the lesson's experiments define.
        from_added: names that added cells define.
        used_by_answers: names that answers look up outside themselves.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [step for step in steps if step.is_code]
        self.from_experiments = self._defined("experiment")
        self.from_added = self._defined("added")
        self.used_by_answers = frozenset(name for step in steps if step.role == "answer" for name in step.code.uses)
        self._from_setup = self._defined("set-up")
        self._from_experiments_alone = self.from_experiments - self._defined("set-up", "answer", "by hand", "added")
        self._helpers: dict[str, list[Step]] = defaultdict(list)  # by the names that they define
        for step in self._steps:
            if step.role in ("added", "answer", "by hand") and not step.is_copy and not step.is_stub:
                for name in step.code.defines:
                    self._helpers[name].append(step)

    def _defined(self, *roles: str) -> frozenset[str]:
        return frozenset(name for step in self._steps if step.role in roles for name in step.code.defines)

    def experiment(self, steps: Iterable[Step]) -> str | None:
        """A name that one of these cells uses and only the lesson's experiments define; None where there is none."""
        uses = {name for step in steps if not step.is_stub for name in step.code.uses}
        return min(uses & self._from_experiments_alone, default=None)

    def of(self, check: Step, answer: Step | None) -> list[Step]:
        """The student's own cells that an answer uses, directly or by way of others, in the notebook's order; those
        that a check of a teacher's own uses, too.

        Where several define a name, those above the cell that uses it count. A cell that only gives names of the set-up
        another meaning is not among them, for example ``torch = None``.
        """
        found: dict[int, Step] = {}
        waiting = [(name, answer.index) for name in answer.code.uses] if answer else []
        if check.released is not None and not check.released.exercise:
            waiting += [(name, check.index) for name in read_code(check.released.full).uses]
        while waiting:
            name, place = waiting.pop()
            if name not in self._from_setup:
                definers = [helper for helper in self._helpers.get(name, ()) if helper is not answer]
                for helper in [helper for helper in definers if helper.index < place] or definers:
                    if helper.index not in found:
                        found[helper.index] = helper
                        waiting += [(used, helper.index) for used in helper.code.uses]
        return [found[index] for index in sorted(found)]

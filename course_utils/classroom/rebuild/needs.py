"""Which cells a submission's answers lean on (``Needs``), from their text alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from course_utils.classroom.rebuild.rebuild import Step


class Needs:
    """Who defines and who uses which names in a rebuilt notebook.

    Attributes:
        from_experiments: names that the lesson's experiments define.
        from_student: names that answers and added cells define.
        from_added: names that added cells define.
        used_by_answers: names that answers look up outside themselves.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [step for step in steps if step.is_code]
        self.from_experiments = self._defined("experiment")
        self.from_student = self._defined("answer", "added")
        self.from_added = self._defined("added")
        self._from_setup = self._defined("set-up")
        self._helpers: dict[str, list[Step]] = defaultdict(list)  # by the names that they define
        for step in self._steps:
            if step.role == "added" and not step.is_copy:
                for name in step.code.defines:
                    self._helpers[name].append(step)
        self.used_by_answers = frozenset(name for step in steps if step.role == "answer" for name in step.code.uses)

    def _defined(self, *roles: str) -> frozenset[str]:
        return frozenset(name for step in self._steps if step.role in roles for name in step.code.defines)

    def experiments(self) -> tuple[str, str] | None:
        """The first answer, or check of a teacher's own, that uses a name which only an experiment defines.

        Returns:
            Its label and the name.
        """
        missing = self.from_experiments - self._defined("set-up", "answer", "by hand", "added")
        for answer in self._steps:
            own_check = answer.role == "check" and answer.released is not None and not answer.released.exercise
            if own_check or (answer.role == "answer" and not answer.blank):
                leans = {name for step in (answer, *self.helpers(answer)) for name in step.code.uses}
                if leans & missing:
                    return answer.label, min(leans & missing)
        return None

    def helpers(self, answer: Step) -> list[Step]:
        """The student's own cells that an answer leans on, directly or by way of others, in the notebook's order.

        A cell that only gives names of the set-up another meaning is not among them.
        """
        found: dict[int, Step] = {}
        known, waiting = set(self._from_setup), list(answer.code.uses)
        while waiting:
            name = waiting.pop()
            if name not in known:
                known.add(name)
                for helper in self._helpers.get(name, ()):
                    found[helper.index] = helper
                    waiting += helper.code.uses
        return [found[index] for index in sorted(found)]

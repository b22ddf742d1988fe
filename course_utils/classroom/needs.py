"""Which cells a submission's answers lean on (``Needs``), from their text alone.

Imports rebuild and source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from course_utils.classroom.rebuild import Step
from course_utils.classroom.source import defined, used


class Needs:
    """Who defines and who uses which names in a rebuilt notebook.

    Attributes:
        from_experiments: names that the lesson's experiments define.
        from_student: names that answers and added cells define.
        used_by_answers: names that answers look up outside themselves.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.from_experiments = _all(defined(step.source) for step in steps if step.role == "experiment")
        self.from_student = _all(defined(step.source) for step in steps if step.role in ("answer", "added"))
        self.used_by_answers = _all(used(step.source) for step in steps if step.role == "answer")

    def experiments(self) -> tuple[str, str] | None:
        """The first answer that uses a name which only an experiment defines: (its label, the name)."""
        own = [step for step in self._steps if step.is_code and step.role not in ("experiment", "check")]
        provided = _all(defined(step.source) for step in own)
        helpers = [step for step in own if step.released is None and not step.is_copy]
        for step in self._steps:
            if step.role != "answer" or step.blank:
                continue
            needs = set().union(*(used(source) for source in (step.source, *step.copies)))
            waiting = list(helpers)
            while True:
                more = [helper for helper in waiting if needs & defined(helper.source)]
                if not more:
                    break
                waiting = [helper for helper in waiting if helper not in more]
                needs.update(*(used(helper.source) for helper in more))
            missing = sorted((needs - provided) & self.from_experiments)
            if missing:
                return step.label, missing[0]
        return None


def _all(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)

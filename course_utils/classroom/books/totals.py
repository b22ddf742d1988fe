"""A class's points as rows of CSV: for people, and for Moodle's and Canvas's imports (``Totals``).

Nobody's points are made up: what was not handed in, and what is still to be marked, is empty and never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from course_utils.classroom.books.marks import marks_in
from course_utils.classroom.course.folder import ClassFolder

Line = tuple[object, ...]


class Totals:
    """What the gradebook holds of assignments.

    Attributes:
        possible: by assignment, what it can earn.
        people: everybody in the gradebook, in order, as nbgrader's own ``to_dict`` tells of them.
        marks: by assignment and student, the marks of graded cells.
    """

    def __init__(self, course: ClassFolder, assignments: Sequence[str]) -> None:
        self.possible, self.marks, self._lost = dict[str, float](), dict[str, Any](), dict[str, dict[str, float]]()
        with course.gradebook() as gradebook:
            self.people = sorted((who.to_dict() for who in gradebook.students), key=lambda who: str(who["id"]))
            for assignment in gradebook.assignments:
                if assignment.name in assignments:
                    self.possible[assignment.name] = assignment.max_score
                    handed_in = {one.student_id: one for one in assignment.submissions}
                    self.marks[assignment.name] = {name: marks_in(one) for name, one in handed_in.items()}
                    late = {name: one.late_submission_penalty or 0.0 for name, one in handed_in.items()}
                    self._lost[assignment.name] = late

    def score(self, assignment: str, student: str) -> float | str:
        """The points, late penalty taken off; or ``"missing"``, or ``"to mark"`` while a mark is."""
        marks = self.marks[assignment].get(student)
        if not marks:
            return "missing"
        scores = [mark.score for mark in marks.values() if mark.score is not None]
        if any(mark.waits for mark in marks.values()) or len(scores) < len(marks):
            return "to mark"
        return max(0.0, sum(scores) - self._lost[assignment].get(student, 0.0))

    def students(self) -> Iterator[Line]:
        """A row for each student: points or what is in their way for each assignment, and the sum of the points."""
        yield ("student", "last_name", "first_name", "email", *self.possible, "total", "possible", "missing", "to_mark")
        for who in self.people:
            scores = [self.score(name, who["id"]) for name in self.possible]
            total = sum(score for score in scores if isinstance(score, float))
            about = (who["id"], who["last_name"] or "", who["first_name"] or "", who["email"] or "")
            counts = scores.count("missing"), scores.count("to mark")
            yield (*about, *map(_short, scores), _short(total), _short(sum(self.possible.values())), *counts)

    def moodle(self) -> Iterator[Line]:
        """For Moodle: Grades, Import, CSV file. An empty cell leaves a grade as it is."""
        yield ("Username", "ID number", "Email address", *self.possible)
        for who in self.people:
            yield (who["id"], who["id"], who["email"] or "", *self._numbers(who["id"]))

    def canvas(self) -> Iterator[Line]:
        """For Canvas: Gradebook, Import. An empty cell leaves a grade as it is."""
        yield ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *self.possible)
        yield ("Points Possible", "", "", "", "", *map(_short, self.possible.values()))
        for who in self.people:
            name = ", ".join(filter(None, (who["last_name"], who["first_name"]))) or who["id"]
            yield (name, "", who["id"], who["id"], "", *self._numbers(who["id"]))

    def _numbers(self, student: str) -> list[str]:
        scores = [self.score(name, student) for name in self.possible]
        return [_short(score) if isinstance(score, float) else "" for score in scores]


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 4):g}"

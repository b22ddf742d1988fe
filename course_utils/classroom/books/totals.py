"""A class's points as rows of CSV: for people, and for Moodle's and Canvas's imports (``Totals``).

Nobody's points are made up: what was not handed in, and what is still to be marked, is empty and never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from course_utils.classroom.books.marks import marks_in
from course_utils.classroom.course.folder import ClassFolder

Line = tuple[object, ...]


@dataclass(frozen=True)
class Person:
    """A student as the gradebook knows them."""

    id: str
    last_name: str
    first_name: str
    email: str


class Totals:
    """What the gradebook holds of assignments.

    Attributes:
        people: everybody in the gradebook, in order.
        possible: by assignment, what it can earn.
        marks: by assignment and student, the marks of graded cells.
    """

    def __init__(self, course: ClassFolder, assignments: Sequence[str]) -> None:
        with course.gradebook() as gradebook:
            self.people = [
                Person(student.id, student.last_name or "", student.first_name or "", student.email or "")
                for student in sorted(gradebook.students, key=lambda student: str(student.id))
            ]
            found = {item.name: item for item in gradebook.assignments if item.name in assignments}
            self.possible = {name: found[name].max_score for name in assignments if name in found}
            self.marks = {name: marks_in(gradebook.db, name) for name in assignments}
            self._penalties = {
                name: {item.student_id: item.late_submission_penalty or 0.0 for item in found[name].submissions}
                for name in self.possible
            }

    def score(self, assignment: str, student: str) -> float | str:
        """The points, late penalty taken off; or ``"missing"``, or ``"to mark"`` while a mark is."""
        marks = self.marks[assignment].get(student)
        if not marks:
            return "missing"
        scores = [mark.score for mark in marks.values() if mark.score is not None]
        if any(mark.waits for mark in marks.values()) or len(scores) < len(marks):
            return "to mark"
        return max(0.0, sum(scores) - self._penalties[assignment].get(student, 0.0))

    def students(self) -> Iterator[Line]:
        """A row for each student: points or what is in their way for each assignment, and the sum of the points."""
        names = list(self.possible)
        yield ("student", "last_name", "first_name", "email", *names, "total", "possible", "missing", "to_mark")
        for person in self.people:
            scores = [self.score(name, person.id) for name in names]
            total = _short(sum(score for score in scores if isinstance(score, float)))
            shown = [_short(score) if isinstance(score, float) else score for score in scores]
            counts = scores.count("missing"), scores.count("to mark")
            about = (person.id, person.last_name, person.first_name, person.email)
            yield (*about, *shown, total, _short(sum(self.possible.values())), *counts)

    def moodle(self) -> Iterator[Line]:
        """For Moodle: Grades, Import, CSV file. An empty cell leaves a grade as it is."""
        yield ("Username", "ID number", "Email address", *self.possible)
        for person in self.people:
            yield (person.id, person.id, person.email, *self._numbers(person))

    def canvas(self) -> Iterator[Line]:
        """For Canvas: Gradebook, Import. An empty cell leaves a grade as it is."""
        yield ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *self.possible)
        yield ("Points Possible", "", "", "", "", *map(_short, self.possible.values()))
        for person in self.people:
            name = ", ".join(filter(None, (person.last_name, person.first_name))) or person.id
            yield (name, "", person.id, person.id, "", *self._numbers(person))

    def _numbers(self, person: Person) -> list[str]:
        scores = [self.score(name, person.id) for name in self.possible]
        return [_short(score) if isinstance(score, float) else "" for score in scores]


def _short(value: float) -> str:
    return f"{round(value, 4):g}"

"""Everything that leaves the course folder (``export``): marks, outcomes, misunderstandings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from course_utils.base.files import write_whole
from course_utils.classroom.books.gradebook import settle
from course_utils.classroom.books.marks import Mark
from course_utils.classroom.books.misunderstood import as_csv, as_markdown, count
from course_utils.classroom.books.stored import load, refuse_outdated, without_texts
from course_utils.classroom.books.totals import Line, Totals
from course_utils.classroom.course import spreadsheet
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.results import Report


def export(course: ClassFolder, assignments: Sequence[str], target: Path) -> list[Path]:
    """Writes the files into a folder, which is made, in place of older ones of the same names. Returns them in order:

    - ``students.csv``: a row for each student, with totals; ``moodle.csv`` and ``canvas.csv``: for import there.
    - ``outcomes.csv``: a line for each student and exercise: points, outcome, misunderstandings.
    - ``misunderstood.csv`` and ``misunderstood.md``: how many students showed which misunderstanding.

    Args:
        course: the course folder.
        assignments: released ones.
        target: the folder.

    Raises:
        ValueError: of an assignment, exercises or points have been changed since something was graded.
    """
    settle(course, assignments)
    totals, reports = Totals(course, assignments), list[Report]()
    for assignment in assignments:
        paths = [course.report(assignment, student) for student in course.submitters(assignment)]
        found = [without_texts(stored.report) for path in paths if (stored := load(path))]
        refuse_outdated(course, assignment, found)
        reports += found
    counts = count(reports)
    tables: dict[str, Iterable[Line]] = {"students": totals.students(), "moodle": totals.moodle()}
    tables |= {"canvas": totals.canvas(), "outcomes": _outcomes(reports, totals.marks)}
    target.mkdir(parents=True, exist_ok=True)
    written = [write_whole(target / f"{name}.csv", spreadsheet.as_csv(rows)) for name, rows in tables.items()]
    written.append(write_whole(target / "misunderstood.csv", as_csv(counts)))
    return [*written, write_whole(target / "misunderstood.md", as_markdown(counts))]


def _outcomes(reports: Iterable[Report], marks: Mapping[str, Mapping[str, Mapping[str, Mark]]]) -> Iterator[Line]:
    yield ("assignment", "student", "exercise", "earned", "possible", "outcome", "by_hand", "said", "misconceptions")
    for report in reports:
        for result in report.exercises:
            mark = marks[report.assignment].get(report.student, {}).get(result.grade_id)
            score = result.earned if mark is None else mark.score
            earned = "" if score is None else f"{score:g}"  # what is still to be marked is not 0
            head = (report.assignment, report.student, result.exercise, earned, f"{result.possible:g}", result.outcome)
            yield (*head, _by_hand(mark), result.said or "", "; ".join(result.misconceptions))


def _by_hand(mark: Mark | None) -> str:
    if mark is None or (mark.given is None and not mark.waits):
        return ""
    return "to mark" if mark.given is None else "answered anew" if mark.waits else "marked"

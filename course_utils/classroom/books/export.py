"""Everything that leaves the course folder (``export``): marks, outcomes, misunderstandings, figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from course_utils.base.files import write_whole
from course_utils.classroom.books.kept import kept, without_texts
from course_utils.classroom.books.marks import Mark, marks_of
from course_utils.classroom.books.misunderstood import ExerciseCounts, as_csv, as_markdown, count
from course_utils.classroom.course import spreadsheet
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.results import Report

Line = tuple[object, ...]
SCORES = ("raw_score", "late_submission_penalty", "score", "max_score")


def export(course: ClassFolder, assignments: Sequence[str], target: Path) -> list[Path]:
    """Writes the files into a folder, which is made, in place of older ones of the same names. Returns them in order:

    - ``grades.csv``: as nbgrader's own, with late penalties and the marks that people gave.
    - ``outcomes.csv``: a line for each student and exercise: points, outcome, misunderstandings.
    - ``misunderstood.csv`` and ``misunderstood.md``: how many students showed which misunderstanding.
    - ``ASSIGNMENT.png``: the same as a figure; ``ASSIGNMENT.txt``: the figure in words.
    """
    target.mkdir(parents=True, exist_ok=True)
    reports = [
        without_texts(found.report)
        for assignment in assignments
        for student in course.submitters(assignment)
        if (found := kept(course.report(assignment, student)))
    ]
    marks = {assignment: marks_of(course, assignment) for assignment in assignments}
    counts = count(reports)
    written = [
        write_whole(target / "grades.csv", spreadsheet.as_csv(_marks(course, assignments))),
        write_whole(target / "outcomes.csv", spreadsheet.as_csv(_outcomes(reports, marks))),
        write_whole(target / "misunderstood.csv", as_csv(counts)),
        write_whole(target / "misunderstood.md", as_markdown(counts)),
    ]
    for assignment in assignments:
        if handed_in := sum(report.assignment == assignment for report in reports):
            rows = [row for row in counts if row.assignment == assignment]
            written += _figure(rows, handed_in, target / f"{assignment}.png")
    return written


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


def _marks(course: ClassFolder, assignments: Sequence[str]) -> Iterator[Line]:
    """The lines that nbgrader's own exporter writes, which quotes nothing."""
    yield (*("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"), *SCORES)
    with course.gradebook() as gradebook:
        for assignment in gradebook.assignments:
            if assignment.name not in assignments:
                continue
            handed_in = {found.student_id: found for found in gradebook.assignment_submissions(assignment.name)}
            for student in gradebook.students:
                found = handed_in.get(student.id)
                score, penalty = (found.score, found.late_submission_penalty) if found else (0.0, 0.0)
                yield (
                    *(assignment.name, assignment.duedate, found and found.timestamp),
                    *(student.id, student.last_name, student.first_name, student.email),
                    *(score, penalty, max(0.0, score - penalty), assignment.max_score),
                )


def _figure(counts: Sequence[ExerciseCounts], students: int, path: Path) -> list[Path]:
    import matplotlib

    from course_utils.classroom.books.figures import plot_misunderstood

    with matplotlib.rc_context({"backend": "agg"}):  # no window, whatever the teacher's own setting is
        drawing = plot_misunderstood(counts, students)
        drawing.figure.savefig(path, dpi=144, facecolor=drawing.figure.get_facecolor())
        import matplotlib.pyplot as plt

        plt.close(drawing.figure)
    return [path, write_whole(path.with_suffix(".txt"), drawing.description + "\n")]

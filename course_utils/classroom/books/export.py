"""Everything that leaves the course folder (``export``): marks, outcomes, misunderstandings, figures."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from course_utils.base.files import write_whole
from course_utils.classroom.books.alike import alike, lines_of, pieces_of, the_same
from course_utils.classroom.books.marks import Mark
from course_utils.classroom.books.misunderstood import ExerciseCounts, as_csv, as_markdown, count
from course_utils.classroom.books.stored import load, refuse_outdated, without_texts
from course_utils.classroom.books.totals import Line, Totals
from course_utils.classroom.course import spreadsheet
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.results import Report

SCORES = ("raw_score", "late_submission_penalty", "score", "max_score")


def export(course: ClassFolder, assignments: Sequence[str], target: Path, *, anonymous: bool = False) -> list[Path]:
    """Writes the files into a folder, which is made, in place of older ones of the same names. Returns them in order:

    - ``students.csv``: a row for each student, with totals; ``moodle.csv`` and ``canvas.csv``: for import there.
    - ``grades.csv``: as nbgrader's own, with late penalties and the marks that people gave.
    - ``outcomes.csv``: a line for each student and exercise: points, outcome, misunderstandings.
    - ``statistics.csv``: mean, median and how hard each exercise was.
    - ``misunderstood.csv`` and ``misunderstood.md``: how many students showed which misunderstanding.
    - ``alike.csv``: pairs of submissions that are alike beyond the lesson's own text.
    - ``ASSIGNMENT.png``: the same as a figure; ``ASSIGNMENT.txt``: the figure in words.

    Args:
        course: the course folder.
        assignments: released ones.
        target: the folder.
        anonymous: whether numbers, drawn anew each time, stand in place of ids, and names, addresses and times are left
            out; what a learning platform imports is not written then.

    Raises:
        ValueError: of an assignment, exercises or points have been changed since something was graded.
    """
    totals, reports, pairs = Totals(course, assignments), list[Report](), list[Line]()
    names = sorted({person.id for person in totals.people}.union(*map(course.submitters, assignments)))
    called = _numbers(names) if anonymous else {name: name for name in names}
    for assignment in assignments:
        pieces, lines = dict[str, frozenset[int]](), dict[str, tuple[str, ...]]()
        text = course.notebook("release", assignment).read_text(encoding="utf-8")
        given, known = pieces_of(text), set(lines_of(text))
        for student in course.submitters(assignment):
            if found := load(course.report(assignment, student)):
                reports.append(without_texts(found.report))
                pieces[student] = pieces_of(found.report.notebook)
                lines[student] = tuple(line for line in lines_of(found.report.notebook) if line not in known)
        same = the_same(lines)
        there = {(pair.one, pair.other) for pair in same}
        others = [pair for pair in alike(pieces, given) if (pair.one, pair.other) not in there]
        pairs += [
            (assignment, called[pair.one], called[pair.other], f"{pair.share:.0%}", pair.pieces)
            for pair in (*same, *others)
        ]
    for assignment in assignments:
        refuse_outdated(course, assignment, [report for report in reports if report.assignment == assignment])
    counts = count(reports)
    tables: dict[str, Iterable[Line]] = {"students": totals.students(called.__getitem__)}
    tables |= {} if anonymous else {"moodle": totals.moodle(), "canvas": totals.canvas()}
    tables |= {
        "grades": _marks(course, assignments, called),
        "outcomes": _outcomes(reports, totals.marks, called),
        "statistics": totals.statistics(reports),
        "alike": [("assignment", "one", "other", "alike", "pieces"), *pairs],
    }
    target.mkdir(parents=True, exist_ok=True)
    written = [write_whole(target / f"{name}.csv", spreadsheet.as_csv(rows)) for name, rows in tables.items()]
    written.append(write_whole(target / "misunderstood.csv", as_csv(counts)))
    written.append(write_whole(target / "misunderstood.md", as_markdown(counts)))
    for assignment in assignments:
        if handed_in := sum(report.assignment == assignment for report in reports):
            rows = [row for row in counts if row.assignment == assignment]
            written += _figure(rows, handed_in, target / f"{assignment}.png")
    return written


def _numbers(names: list[str]) -> dict[str, str]:
    order = random.SystemRandom().sample(names, len(names))
    return {name: f"student {number}" for number, name in enumerate(order, 1)}


def _outcomes(
    reports: Iterable[Report], marks: Mapping[str, Mapping[str, Mapping[str, Mark]]], called: Mapping[str, str]
) -> Iterator[Line]:
    yield ("assignment", "student", "exercise", "earned", "possible", "outcome", "by_hand", "said", "misconceptions")
    for report in reports:
        for result in report.exercises:
            mark = marks[report.assignment].get(report.student, {}).get(result.grade_id)
            score = result.earned if mark is None else mark.score
            earned = "" if score is None else f"{score:g}"  # what is still to be marked is not 0
            student = called[report.student]
            head = (report.assignment, student, result.exercise, earned, f"{result.possible:g}", result.outcome)
            yield (*head, _by_hand(mark), result.said or "", "; ".join(result.misconceptions))


def _by_hand(mark: Mark | None) -> str:
    if mark is None or (mark.given is None and not mark.waits):
        return ""
    return "to mark" if mark.given is None else "answered anew" if mark.waits else "marked"


def _marks(course: ClassFolder, assignments: Sequence[str], called: Mapping[str, str]) -> Iterator[Line]:
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
                plain = called[student.id] == student.id
                about = (student.last_name, student.first_name, student.email) if plain else (None,) * 3
                yield (
                    *(assignment.name, assignment.duedate, found and found.timestamp if plain else None),
                    *(called[student.id], *about),
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

"""What is kept of a graded submission: marks in nbgrader's gradebook, and the graded notebook in ``autograded/``, whose
metadata hold the report (``enter``, ``kept``).

What nbgrader does with a graded notebook is done here with a report, through nbgrader's own interface: automatic
scores, what a person still has to look at, comments, timestamps, late penalties by the course's own plugin. A mark that
a person gave is never touched. One process writes, the notebook last and whole: what it holds is in the gradebook.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from course_utils.base import explain
from course_utils.base.files import write_whole
from course_utils.classroom.course.folder import ClassFolder
from course_utils.classroom.judging.results import ExerciseResult, Report
from course_utils.classroom.rebuild.reading import ReleasedCell, read_released

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

LATE = ""  # stands in place of a graded cell for the late penalty, as a score below 0
_KEPT = "autograd_control"  # metadata of a graded notebook


class Unusable(ValueError):
    """The gradebook takes no marks, whosever they are."""


@dataclass(frozen=True)
class Mark:
    """What the gradebook holds of one graded cell of one student.

    Attributes:
        score: that counts, extra credit included; None where a person still has to give it.
        given: what a person gave; None where nobody did.
        waits: whether a person has to look at it.
    """

    score: float | None
    given: float | None
    waits: bool


def marks_of(course: ClassFolder, assignment: str) -> dict[str, dict[str, Mark]]:
    """Student -> graded cell, or ``LATE`` -> mark, of everybody who handed this assignment in."""
    found = defaultdict[str, dict[str, Mark]](dict)
    with course.gradebook() as gradebook:
        for submission in gradebook.assignment_submissions(assignment):
            for grade in (grade for notebook in submission.notebooks for grade in notebook.grades):
                score = None if grade.auto_score is None and grade.manual_score is None else grade.score
                mark = Mark(score, grade.manual_score, grade.needs_manual_grade)
                found[submission.student_id][grade.name] = mark
            if lost := submission.late_submission_penalty:
                found[submission.student_id][LATE] = Mark(-lost, None, False)
    return dict(found)


def mark_of(result: ExerciseResult, marks: Mapping[str, Mark]) -> Mark:
    """What counts for an exercise: what the gradebook holds, else what grading gave."""
    return marks.get(result.grade_id) or Mark(None if result.waits else result.earned, None, result.waits)


def so_far(marks: Iterable[Mark]) -> float:
    """The points that marks give together, as long as what waits has none."""
    return max(0.0, sum(mark.score or 0.0 for mark in marks))


def still_to_mark(course: ClassFolder, assignments: Iterable[str]) -> Iterator[str]:
    """How many answers wait for a person, a line for each assignment in which some do."""
    for assignment in assignments:
        marks = marks_of(course, assignment).values()
        waiting = Counter(cell for cells in marks for cell, mark in cells.items() if mark.waits)
        if waiting:
            each = ", ".join(f"{cell} {number}" for cell, number in sorted(waiting.items()))
            yield f"{assignment}: still to mark: {waiting.total()} ({each})"


def kept(course: ClassFolder, assignment: str, student: str) -> tuple[str, Report] | None:
    """What a student's graded notebook is a result of, and its report; None where there is none as ``enter`` writes it:
    the submission is graded again."""
    try:
        text = course.notebook("autograded", assignment, student).read_text(encoding="utf-8")
        values = json.loads(text)["metadata"][_KEPT]
        return values["key"], replace(Report.from_json(json.dumps(values["report"])), notebook=text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def reports(course: ClassFolder, assignment: str) -> dict[str, Report]:
    """The reports of everybody who was graded, without their texts.

    Raises:
        ValueError: exercises or points have been changed since; ``grade`` brings them up to date.
    """
    names = course.submitters(assignment)
    those = {name: without_texts(one[1]) for name in names if (one := kept(course, assignment, name))}
    released = read_released(course.notebook("release", assignment).read_text(encoding="utf-8"))
    wanted = {cell.grade_id: cell.points for cell in released.graded}
    old = [name for name, one in those.items() if {e.grade_id: e.possible for e in one.exercises} != wanted]
    if old:
        said = f"{assignment} was released with other exercises or points after some were graded, such as {old[0]}."
        raise ValueError(f"{said}\nTry: autograd-control classroom grade {assignment}")
    return those


def without_texts(report: Report) -> Report:
    """The report without its notebook and cards: a class of thousands fits into memory."""
    exercises = tuple(replace(result, html="") for result in report.exercises)
    return replace(report, notebook="", exercises=exercises)


def enter(course: ClassFolder, gradebook: Gradebook, report: Report, key: str, time: datetime | None) -> None:
    """Enters a report: marks first, then the notebook.

    Args:
        course: the course folder.
        gradebook: its gradebook, open.
        report: of a released assignment.
        key: what it is a report of; ``kept`` gives it back.
        time: when it was handed in, in UTC; None where that is not known.

    Raises:
        Unusable: the gradebook does not know the assignment or its graded cells, or cannot be written.
        OSError: the notebook cannot be written.
    """
    from nbgrader.api import InvalidEntry, MissingEntry
    from sqlalchemy.exc import OperationalError

    path, values = course.notebook("autograded", report.assignment, report.student), json.loads(report.notebook)
    graded = _answers(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "")
    before = {name: cell.source for name, cell in graded.items()}
    try:
        with gradebook.db.no_autoflush:  # what nbgrader adds row by row must not be written half-way
            gradebook.update_or_create_student(report.student)
            gradebook.update_or_create_submission(report.assignment, report.student, timestamp=time)
            _mark(gradebook, report, before)
            gradebook.db.commit()
    except Exception as error:
        gradebook.db.rollback()
        # An IntegrityError is about this one alone; nbgrader wraps an OperationalError into InvalidEntry.
        if not isinstance(error, MissingEntry | OperationalError | InvalidEntry) or "IntegrityError" in str(error):
            raise
        what = f"The gradebook takes no marks of {report.assignment}: {str(error).splitlines()[0]}."
        wanted = "an assignment that was released, and a gradebook that nobody else holds."
        mend = "release it, or close what has the gradebook open, and run the same command again; no mark is lost."
        raise Unusable(explain(what, wanted, try_this=mend)) from error
    values["metadata"][_KEPT] = {"key": key, "report": json.loads(without_texts(report).to_json())}
    path.parent.mkdir(parents=True, exist_ok=True)
    stamp = path.with_name("timestamp.txt")
    stamp.unlink(missing_ok=True)
    # nbgrader's own default, see BaseConverter.permissions: graded notebooks are for reading.
    mode = 0o664 if course.api.coursedir.groupshared else 0o444
    if time:
        write_whole(stamp, f"{time} UTC\n").chmod(mode)
    write_whole(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n").chmod(mode)


def _mark(gradebook: Gradebook, report: Report, before: Mapping[str, str]) -> None:
    """Sets marks and comments; a mark by hand that was given to another answer than now stays, and waits."""
    from nbgrader.api import MissingEntry

    now, why = _answers(report.notebook), " ".join(report.repairs).partition("Nothing was graded. ")[2]
    unread = f"Your file could not be read. {why} Ask your teacher to look at it."
    notebook = gradebook.find_submission_notebook(report.assignment, report.assignment, report.student)
    grades, comments = ({cell.name: cell for cell in cells} for cells in (notebook.grades, notebook.comments))
    for result in report.exercises:
        grade, answer = grades.get(result.grade_id), now.get(result.grade_id)
        if grade is None:
            raise MissingEntry(f"no graded cell is called {result.grade_id}")
        grade.auto_score = None if result.waits else result.earned
        if grade.manual_score is None:
            grade.needs_manual_grade = result.waits
        elif before and (answer is None or answer.source != before.get(grade.name)):
            grade.needs_manual_grade = True
        if answer and answer.grade_id in comments:
            said = unread if result.by_hand and result.outcome == "unreadable" else None
            comments[answer.grade_id].auto_comment = "No response." if result.outcome == "not attempted" else said


def _answers(notebook: str) -> dict[str, ReleasedCell]:
    """What each graded cell of a graded notebook grades: the answer that it looks at, or itself."""
    try:
        read = read_released(notebook)
    except ValueError:  # there is none
        return {}
    return {cell.grade_id: read.by_id.get(cell.answer, cell) for cell in read.graded}


def holds(gradebook: Gradebook, report: Report, time: datetime | None) -> bool:
    """Whether the gradebook has the submission that was ``kept``, with its time."""
    try:
        return gradebook.find_submission(report.assignment, report.student).timestamp == time
    except ValueError:  # nbgrader's MissingEntry is one
        return False


def apply_penalties(course: ClassFolder, gradebook: Gradebook, assignment: str) -> dict[str, str]:
    """Sets every late penalty of an assignment anew, by the plugin that the course's configuration names.

    Returns:
        Student -> one sentence, for each submission that lost points, or of which the plugin made nothing.
    """
    from nbgrader.preprocessors import AssignLatePenalties

    step, said = AssignLatePenalties(parent=course.api), dict[str, str]()
    step.init_plugin()
    for submission in gradebook.assignment_submissions(assignment):
        student, late = submission.student.id, submission.total_seconds_late
        for notebook in submission.notebooks:
            try:
                rule = step.plugin_inst.late_submission_penalty
                lost = (rule(student, notebook.score, late) if late > 0 else None) or 0.0
                lost = notebook.late_submission_penalty = min(max(lost, 0.0), notebook.score)
            except Exception as error:  # a plugin is anybody's code
                said[student] = f"no late penalty: {error}"
            else:
                points = f"{round(lost, 2):g} point{'' if lost == 1 else 's'}"
                said |= {student: f"{late / 3600:.1f} hours late, {points} less."} if lost else {}
    gradebook.db.commit()
    return said


def settle(course: ClassFolder, assignments: Iterable[str]) -> None:
    """Sets late penalties anew, as marks and deadlines are now."""
    with course.only_one(), course.gradebook() as gradebook:
        for assignment in assignments:
            apply_penalties(course, gradebook, assignment)

"""The teacher's command: ``autograd-control classroom init|release|seeds|grade|close|reopen|feedback|export``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.base.errors import explain
from course_utils.classroom.course.folder import ClassFolder

if TYPE_CHECKING:
    from course_utils.classroom.run.graders import Graders

AS_ROOT = (
    "You grade as root. Students' code runs in the sandbox all the same, but one wall less stands around it: use an "
    "ordinary account where you have one."
)


def main(arguments: list[str] | None = None) -> int:
    """Runs one of the commands. Returns the exit status: 0 all well, 1 something to mend, 2 a wrong call."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever a name holds, a terminal shows it somehow
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What is done is kept; the same command goes on from here.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograd-control classroom", description="docs/classroom.md says how.")
    commands = parser.add_subparsers(required=True, metavar="command")

    init = commands.add_parser("init", help="make a course folder for nbgrader")
    init.set_defaults(command=_init)
    init.add_argument("folder", type=Path, help="made where it does not exist; your own files in it stay as they are")
    init.add_argument("--lessons", nargs="+", default=[], metavar="LESSON", help="such as 03_detach (default: all)")
    init.add_argument("--course-id", default="", help="nbgrader's name of the course (default: the folder's name)")

    release = commands.add_parser("release", help="make the notebooks that students get")
    release.set_defaults(command=_release)

    seeds = commands.add_parser("seeds", help="list a drill seed for every student, as CSV")
    seeds.set_defaults(command=_seeds)
    seeds.add_argument("--to", type=Path, help="a file (default: standard output)")

    grade = commands.add_parser("grade", help="grade what was handed in and is not graded yet")
    grade.set_defaults(command=_grade)
    grade.add_argument("--workers", type=_positive, help="graders on this machine (default: one for every core)")
    grade.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler, whose workers grade instead")
    grade.add_argument("--again", action="store_true", help="also what has not changed since it was graded")
    grade.add_argument("--verbose", action="store_true", help="list what was put right in files before grading")

    close = commands.add_parser("close", help="grade an assignment no more; what was handed back stays as it is")
    close.set_defaults(command=_close)

    reopen = commands.add_parser("reopen", help="grade a closed assignment again")
    reopen.set_defaults(command=_reopen)

    feedback = commands.add_parser("feedback", help="write each student's feedback, and look through it")
    feedback.set_defaults(command=_feedback)
    feedback.add_argument("--to", type=Path, help="also into this folder, a folder an assignment, a file a student")
    feedback.add_argument("--zip", action="store_true", help="a zip for each student there, in place of single files")

    export = commands.add_parser("export", help="write marks, outcomes and misunderstandings as files")
    export.set_defaults(command=_export)
    export.add_argument("--to", type=Path, help="a folder (default: export in the course folder)")
    export.add_argument("--anonymous", action="store_true", help="numbers in place of ids, and no names")

    for command in (close, reopen):
        command.add_argument("assignments", nargs="+", metavar="ASSIGNMENT", help="such as 03_detach")
    for command in (release, grade, feedback, export):
        command.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="such as 03_detach (default: all)")
    for command in (release, seeds, grade, close, reopen, feedback, export):
        command.add_argument("--course", type=Path, default=Path(), help="the course folder (default: this one)")
    for command in (grade, feedback):
        command.add_argument("--student", nargs="+", default=[], metavar="ID", help="only these (default: everybody)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number of 1 or more")
    return number


def _init(options: argparse.Namespace) -> int:
    from course_utils.classroom.course.create import create

    made = create(options.folder, options.lessons, options.course_id)
    for path in made.written:
        print(f"wrote {path}")
    for path in made.kept:
        print(f"kept {path}: it is there already, and is not what this command would write")
    if not made.written and not made.kept:
        print("everything is there already")
    return 0


def _release(options: argparse.Namespace) -> int:
    from course_utils.classroom.course.release import release
    from course_utils.classroom.run.tried import tried
    from course_utils.classroom.sandbox.bubblewrap import missing

    course, no_sandbox = ClassFolder(options.course), missing()
    if no_sandbox:
        print(f"Tests of your own are not tried, since nothing can be graded here. {no_sandbox}", file=sys.stderr)
    for assignment in course.choose(options.assignments, "source"):
        released = release(course, assignment, None if no_sandbox else tried)
        whose = "the course's own learner notebook" if released.as_the_course else "made from your source"
        print(f"released {assignment}: {released.points:g} points, {whose}", flush=True)
        print("".join(f"  {change}\n" for change in released.changes), end="", flush=True)
    return 0


def _lost(course: ClassFolder, asked: Sequence[str]) -> bool:
    """Says which assignments are passed over for want of a release; True where there is one."""
    lost = [] if asked else course.lost_releases()
    for name in lost:
        print(
            explain(
                f"{name} is passed over: students have handed it in, and its release is missing.",
                f"{course.notebook('release', name)}.",
                "without it, its marks are in no table and no sum.",
                f"autograd-control classroom release {name}",
            ),
            file=sys.stderr,
        )
    return bool(lost)


def _grade(options: argparse.Namespace) -> int:
    from course_utils.classroom.books.stored import not_graded
    from course_utils.classroom.course.closed import closed, open_ones
    from course_utils.classroom.course.passed_over import passed_over
    from course_utils.classroom.run.command import grade
    from course_utils.classroom.run.table import class_table

    course = ClassFolder(options.course)
    lost = _lost(course, options.assignments)
    assignments = open_ones(course, course.choose(options.assignments), options.assignments)
    if os.geteuid() == 0:
        print(AS_ROOT, file=sys.stderr)
    outcomes = grade(course, assignments, _workers(options), students=options.student, again=options.again)
    tables = (class_table(outcome.assignment, outcome.rows, options.verbose) for outcome in outcomes)
    print("\n\n\n".join(tables))
    if not options.assignments and (days := closed(course)):
        print("\nClosed, and passed over:", ", ".join(f"{name} ({day})" for name, day in sorted(days.items())))
        for name in sorted(days.keys() & set(course.released())):
            if new := not_graded(course, name):
                print(f"  {name}: handed in and not graded: {', '.join(new)}; to grade them, reopen it.")
    if not options.student and (passed := passed_over(course)):
        print("\nHanded in, and passed over:", *(f"  {line}" for line in passed), sep="\n")
    _say_what_to_mark(course, assignments)
    if all(outcome.complete for outcome in outcomes):
        return int(lost)
    print(
        "\nNot everything is done; the reasons are above. The same command, run again, does the rest.", file=sys.stderr
    )
    return 1


def _close(options: argparse.Namespace) -> int:
    from course_utils.classroom.course.closed import close

    course = ClassFolder(options.course)
    close(course, course.choose(options.assignments))
    print(f"closed: {', '.join(options.assignments)}")
    return 0


def _reopen(options: argparse.Namespace) -> int:
    from course_utils.classroom.course.closed import reopen

    course = ClassFolder(options.course)
    reopen(course, course.choose(options.assignments))
    print(f"open: {', '.join(options.assignments)}")
    return 0


def _workers(options: argparse.Namespace) -> Graders:
    if not options.scheduler:
        from course_utils.classroom.run.graders import Graders as _Graders

        return _Graders(options.workers)
    try:
        from course_utils.classroom.run.cluster import Cluster
    except ImportError as error:
        raise ValueError(
            explain(
                f"--scheduler was given, and {error.name} is not installed.",
                "Dask, on this machine as on the cluster's.",
                try_this="python -m pip install -c constraints.txt -e '.[cluster]'",
            )
        ) from error
    return Cluster(options.scheduler)


def _settle(course: ClassFolder, assignments: Sequence[str]) -> bool:
    """Late penalties as marks and deadlines are now; False where one could not be set."""
    from course_utils.classroom.books.gradebook import settle
    from course_utils.classroom.course.lock import only_one

    with only_one(course.root):
        refused = settle(course, assignments)
    print("".join(f"{line}\n" for line in refused), end="", file=sys.stderr)
    return not refused


def _say_what_to_mark(course: ClassFolder, assignments: Sequence[str]) -> None:
    from course_utils.classroom.books.marks import still_to_mark

    lines = [line for name in assignments if (line := still_to_mark(course, name))]
    print("".join(f"\n{line}" for line in lines) + "\n" * bool(lines), end="")


def _seeds(options: argparse.Namespace) -> int:
    from course_utils.base.files import write_whole
    from course_utils.classroom.course.seeds import seeds_csv

    course = ClassFolder(options.course)
    text = seeds_csv(course.course_id, course.students())
    print(f"wrote {write_whole(options.to, text)}\n" if options.to else text, end="")
    return 0


def _feedback(options: argparse.Namespace) -> int:
    from course_utils.classroom.books.feedback import feedback, hand_out
    from course_utils.classroom.course.passed_over import refuse_unknown

    course = ClassFolder(options.course)
    refuse_unknown(course, options.student)
    lost = _lost(course, options.assignments)
    assignments = course.choose(options.assignments)
    if not options.assignments:  # those of which something is graded
        assignments = [name for name in assignments if course.api.get_autograded_students(name)] or assignments
    failed = not _settle(course, assignments) or lost
    for assignment in assignments:
        files = feedback(course, assignment, options.student)
        written = sum(not file.withheld for file in files)
        print(f"{assignment}: {written} feedback files in {course.path('feedback', '*', assignment)}")
        for file in files:
            if file.withheld:
                print(f"  {file.student}: withheld, because {file.withheld}")
            elif file.names:
                print(f"  {file.student}: look at it first, it names {', '.join(file.names)}")
        failed = failed or written < len(files)
    if options.to or options.zip:
        folder = options.to or course.root / "feedback_to_hand_out"
        print(f"{hand_out(course, assignments, folder, options.zip)} in {folder}")
    _say_what_to_mark(course, assignments)
    return int(failed)


def _export(options: argparse.Namespace) -> int:
    from course_utils.classroom.books.export import export

    course = ClassFolder(options.course)
    lost = _lost(course, options.assignments)
    assignments = course.choose(options.assignments)
    settled = _settle(course, assignments)
    target = options.to or course.root / ("export_anonymous" if options.anonymous else "export")
    for path in export(course, assignments, target, anonymous=options.anonymous):
        print(f"wrote {path}")
    _say_what_to_mark(course, assignments)
    return int(lost or not settled)


if __name__ == "__main__":
    sys.exit(main())

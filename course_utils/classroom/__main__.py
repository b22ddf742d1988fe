"""The teacher's command: ``autograd-control classroom init|release|grade|feedback|export``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from course_utils.base.markup import clean
from course_utils.classroom.course.folder import ClassFolder

AS_ROOT = (
    "You grade as root. Students' code runs in the sandbox all the same, but one wall less stands around it: use an "
    "ordinary account where you have one."
)

STRANGERS = """
Not on your list of students, or there without a name: {names}. Where it is somebody's other name, rename the folder,
and: nbgrader db student remove ID --force; where it is right: nbgrader db student add ID, with --first-name."""


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

    grade = commands.add_parser("grade", help="grade what was handed in and is not graded yet")
    grade.set_defaults(command=_grade)
    grade.add_argument("--workers", type=int, help="graders on this machine (default: one for every core)")
    grade.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler, whose workers grade instead")
    grade.add_argument("--again", action="store_true", help="also what has not changed since it was graded")
    grade.add_argument("--verbose", action="store_true", help="list what was put right in files before grading")

    feedback = commands.add_parser("feedback", help="write each student's feedback")
    feedback.set_defaults(command=_feedback)
    feedback.add_argument("--to", type=Path, help="also into this folder, a folder an assignment, a file a student")

    export = commands.add_parser("export", help="write marks, outcomes and misunderstandings as files")
    export.set_defaults(command=_export)
    export.add_argument("--to", type=Path, help="a folder (default: export in the course folder)")

    for command in (release, grade, feedback, export):
        command.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="such as 03_detach (default: all)")
        command.add_argument("--course", type=Path, default=Path(), help="the course folder (default: this one)")
    for command in (grade, feedback):
        command.add_argument("--student", nargs="+", default=[], metavar="ID", help="only these (default: everybody)")
    return parser


def _init(options: argparse.Namespace) -> int:
    from course_utils.classroom.course.create import create

    done = create(options.folder, options.lessons, options.course_id)
    print(*(done or ["everything is there already"]), sep="\n")
    return 0


def _release(options: argparse.Namespace) -> int:
    from course_utils.classroom.run.release import release
    from course_utils.classroom.sandbox.bubblewrap import missing

    course, no_sandbox = ClassFolder(options.course), missing()
    if no_sandbox:
        print(f"Tests of your own are not tried, since nothing can be graded here. {no_sandbox}", file=sys.stderr)
    for assignment in course.choose(options.assignments, "source"):
        earns = release(course, assignment, tries=not no_sandbox)
        print(f"released {assignment}: {earns:g} points", flush=True)
    return 0


def _grade(options: argparse.Namespace) -> int:
    from course_utils.classroom.run.command import grade
    from course_utils.classroom.run.graders import Cluster, Graders
    from course_utils.classroom.run.table import class_table

    course = ClassFolder(options.course)
    assignments = course.choose(options.assignments)
    if os.geteuid() == 0:
        print(AS_ROOT, file=sys.stderr)
    workers = Cluster(options.scheduler) if options.scheduler else Graders(options.workers)
    strangers = sorted(course.strangers())  # before grading enters them
    tables = grade(course, assignments, workers, students=options.student, again=options.again)
    print("\n\n\n".join(class_table(name, rows, options.verbose) for name, rows in tables.items()))
    if strangers:
        print(STRANGERS.format(names=", ".join(map(clean, strangers))))
    if not options.student and (passed := list(course.passed_over())):
        print("\nHanded in, and passed over:", *(f"  {line}" for line in passed), sep="\n")
    _say_what_to_mark(course, assignments)
    if not any(row.failed for rows in tables.values() for row in rows):
        return 0
    said = "Not everything is done; the reasons are above. The same command, run again, does the rest."
    print(f"\n{said}", file=sys.stderr)
    return 1


def _say_what_to_mark(course: ClassFolder, assignments: Sequence[str]) -> None:
    from course_utils.classroom.books.gradebook import still_to_mark

    lines = [line for name in assignments if (line := still_to_mark(course, name))]
    print("".join(f"\n{line}" for line in lines) + "\n" * bool(lines), end="")


def _feedback(options: argparse.Namespace) -> int:
    from course_utils.classroom.books.feedback import feedback, hand_out

    course, failed = ClassFolder(options.course), False
    course.refuse_unknown(options.student)
    assignments = course.choose(options.assignments)
    if not options.assignments:  # those of which something is graded
        assignments = [name for name in assignments if course.api.get_autograded_students(name)] or assignments
    for assignment in assignments:
        pages = feedback(course, assignment, options.student)
        troubles = {student: why for student, why in pages.items() if why}
        folder = course.path("feedback", "*", assignment)
        print(f"{assignment}: {len(pages) - len(troubles)} feedback files in {folder}")
        print("".join(f"  {student}: {why}\n" for student, why in troubles.items()), end="")
        failed = failed or bool(troubles)
    if options.to:
        print(f"{hand_out(course, assignments, options.to)} files in {options.to}")
    _say_what_to_mark(course, assignments)
    return int(failed)


def _export(options: argparse.Namespace) -> int:
    from course_utils.classroom.books.export import export

    course = ClassFolder(options.course)
    assignments = course.choose(options.assignments)
    for path in export(course, assignments, options.to or course.root / "export"):
        print(f"wrote {path}")
    _say_what_to_mark(course, assignments)
    return 0


if __name__ == "__main__":
    sys.exit(main())

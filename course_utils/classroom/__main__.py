"""The teacher's command: ``autograd-control classroom init|release|grade|feedback|export``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_utils.base.markup import clean
from course_utils.classroom.course.folder import ClassFolder

STRANGERS = """
Not on your list of students, or there without a name: {names}. Where it is somebody's other name, rename the folder,
and: nbgrader db student remove ID --force; where it is right: nbgrader db student add ID, with --first-name."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one of the commands. Returns the exit status: 0 all well, 1 something to mend, 2 a wrong call."""
    options = _parser().parse_args(arguments)
    try:
        return _init(options) if options.command is _init else _in_course(options)
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
    grade = commands.add_parser("grade", help="grade what was handed in and is not graded yet")
    grade.add_argument("--workers", type=int, help="graders on this machine (default: one for every core)")
    grade.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler, whose workers grade instead")
    grade.add_argument("--again", action="store_true", help="also what has not changed since it was graded")
    feedback = commands.add_parser("feedback", help="write each student's feedback")
    feedback.add_argument("--to", type=Path, help="also into this folder, a folder an assignment, a file a student")
    export = commands.add_parser("export", help="write marks, outcomes and misunderstandings as files")
    export.add_argument("--to", type=Path, help="a folder (default: export in the course folder)")
    for parsed, command in ((release, _release), (grade, _grade), (feedback, _feedback), (export, _export)):
        parsed.set_defaults(command=command)
        parsed.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="such as 03_detach (default: all)")
        parsed.add_argument("--course", type=Path, default=Path(), help="the course folder (default: this one)")
    for parsed in (grade, feedback):
        parsed.add_argument("--student", nargs="+", default=[], metavar="ID", help="only these (default: everybody)")
    return parser


def _init(options: argparse.Namespace) -> int:
    from course_utils.classroom.run.release import create

    done = create(options.folder, options.lessons, options.course_id)
    print(*(done or ["everything is there already"]), sep="\n")
    return 0


def _in_course(options: argparse.Namespace) -> int:
    """Runs one of the other commands, and says what is still to mark by hand."""
    from course_utils.classroom.books.gradebook import still_to_mark

    course = ClassFolder(options.course)
    assignments = course.choose(options.assignments, "source" if options.command is _release else "release")
    status = options.command(course, assignments, options)
    for line in still_to_mark(course, assignments):
        print(f"\n{line}")
    return int(status)


def _release(course: ClassFolder, assignments: Sequence[str], options: argparse.Namespace) -> bool:
    from course_utils.classroom.run.release import release
    from course_utils.classroom.sandbox.bubblewrap import SandboxMissing

    for assignment in assignments:
        try:
            earns = release(course, assignment)
        except SandboxMissing as missing:
            print(f"Tests of your own are not tried, since nothing can be graded here. {missing}", file=sys.stderr)
            earns = release(course, assignment, tries=False)
        print(f"released {assignment}: {earns:g} points", flush=True)
    return False


def _grade(course: ClassFolder, assignments: Sequence[str], options: argparse.Namespace) -> bool:
    from course_utils.classroom.judging.results import some
    from course_utils.classroom.run.command import class_table, grade
    from course_utils.classroom.run.graders import Cluster, Graders

    workers = Cluster(options.scheduler) if options.scheduler else Graders(options.workers)
    strangers = sorted(course.strangers())  # before grading enters them
    tables = grade(course, assignments, workers, students=options.student, again=options.again)
    print("\n\n\n".join(class_table(name, rows) for name, rows in tables.items()))
    if strangers:
        print(STRANGERS.format(names=", ".join(some([*map(clean, strangers)]))))
    if not options.student and (passed := list(course.passed_over())):
        print("\nHanded in, and passed over:")
        for place, meant in passed:
            name, shown = meant[0] if len(meant) == 1 else "ASSIGNMENT", clean(str(place), 120)
            print(f"  {shown}: no released assignment's folder; graded is submitted/STUDENT/{name}/{name}.ipynb.")
    failed = any(row.failed for rows in tables.values() for row in rows)
    if failed:
        said = "Not everything is done; the reasons are above. Put right what you can; the same command does the rest."
        print(f"\n{said}", file=sys.stderr)
    return failed


def _feedback(course: ClassFolder, assignments: Sequence[str], options: argparse.Namespace) -> bool:
    from course_utils.classroom.books.export import feedback, hand_out

    course.refuse_unknown(options.student)
    graded = [name for name in assignments if course.graded(name)]
    failed = False
    for assignment in assignments if options.assignments else graded or assignments:
        pages = feedback(course, assignment, options.student)
        troubles = {student: why for student, why in pages.items() if why}
        folder = course.path("feedback", assignment, "*")
        print(f"{assignment}: {len(pages) - len(troubles)} feedback files in {folder}")
        print("".join(f"  {student}: {why}\n" for student, why in troubles.items()), end="")
        failed = failed or bool(troubles)
    if options.to:
        print(f"{hand_out(course, assignments, options.to)} files in {options.to}")
    return failed


def _export(course: ClassFolder, assignments: Sequence[str], options: argparse.Namespace) -> bool:
    from course_utils.classroom.books.export import export

    for path in export(course, assignments, options.to or course.root / "export"):
        print(f"wrote {path}")
    return False


if __name__ == "__main__":
    sys.exit(main())

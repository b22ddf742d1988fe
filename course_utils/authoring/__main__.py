"""The authors' command: ``python -m course_utils.authoring build|lint|run|programs|card``."""

import argparse
import importlib
import sys
from pathlib import Path

from course_utils.authoring import build as building
from course_utils.authoring.files import Course
from course_utils.authoring.lint import lint_course, report
from course_utils.base import explain
from course_utils.catalogue import find

ERRORS = "errors"  # among the lessons' names: the index of errors


def main(arguments: list[str] | None = None) -> int:
    """Runs one of the commands. Returns the exit status: 0 all well, 1 something to mend, 2 a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.authoring", description=__doc__)
    parser.add_argument("--course", type=Path, default=Path(), help="a folder inside the course (default: this one)")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, function, argument, text in (
        ("build", _build, "notebook", "write what is made: headings, check cells, learner notebooks, the course's map"),
        ("lint", _lint, "notebook", "fail when a notebook breaks a rule; runs no kernel"),
        ("run", _run, "notebook", "build, run solution notebooks and those in further/, keep their outputs"),
        ("programs", _programs, "lesson", "run the programs that show misconceptions and errors, keep what they print"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        command.add_argument("names", nargs="*", metavar=argument, help="such as detach (default: all)")
    text = "show the card of a right answer or of a known mistake, such as: card detach mean_loss graphs"
    command = commands.add_parser("card", help=text, description=text)
    command.set_defaults(command=_card)
    command.add_argument("names", nargs=3, metavar="name", help="a lesson, an exercise, a label")
    options = parser.parse_args(arguments)
    try:
        return options.command(Course.containing(options.course), options.names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1


def _build(course: Course, names: list[str]) -> int:
    changed = building.build(course, names)
    for path in changed:
        print(f"wrote {course.name(path)}")
    if not changed:
        print("everything that is made is up to date")
    return 0


def _lint(course: Course, names: list[str]) -> int:
    problems = lint_course(course, names)
    if problems:
        print(report(problems), file=sys.stderr)
    return 1 if problems else 0


def _card(course: Course, names: list[str]) -> int:
    """Shows what a learner is shown who hands in an answer of ``tests/lessons``, by its name, or makes a known mistake,
    by the key of its misconception: a card for each way to make it. Nothing is written to anybody's progress."""
    from course_utils.checks.judge import judge
    from course_utils.lesson import Lesson

    lesson, exercise, label = names
    exercises = Lesson(lesson).exercises
    sys.path.insert(0, str(course.root))  # the package itself knows nothing of the tests
    try:
        entered = importlib.import_module("tests.lessons.answers")
    finally:
        sys.path.remove(str(course.root))
    if exercise not in exercises:
        raise ValueError(explain(f"There is no exercise {exercise!r}.", f"one of {', '.join(exercises)}."))
    rows = [row for row in (*entered.right_answers(lesson), *entered.wrong_answers(lesson)) if row.exercise == exercise]
    found = [entered.made(lesson, exercise, row.source) for row in rows if row.name == label]
    if not found:
        there = ", ".join(dict.fromkeys(repr(row.name) for row in rows))
        raise ValueError(explain(f"No answer to {exercise} is called {label!r}.", f"one of {there}."))
    for number, answer in enumerate(found, 1):
        print(f"{label}, {number} of {len(found)}\n{judge(exercises[exercise], answer, lesson)}\n")
    return 0


def _run(course: Course, names: list[str]) -> int:
    from course_utils.authoring.execute import run

    failed = False
    for path in [*course.solution_paths(names), *course.further_paths(names)]:
        try:
            building.build(course, [path.stem])
            print(f"{course.name(path)}: {'outputs changed' if run(path) else 'outputs as before'}")
        except ValueError as error:
            failed = True
            print(f"{course.name(path)}: {error}", file=sys.stderr)
    return 1 if failed else 0


def _programs(course: Course, names: list[str]) -> int:
    from course_utils.authoring.programs import store

    package, wanted = course.root / "course_utils", {find(name).name for name in names if name != ERRORS}
    lessons, errors = package.glob("lessons/*/*.toml"), package.glob(f"why/{ERRORS}/*.toml")
    paths = [path for path in sorted(lessons) if not names or path.parent.name in wanted]
    for path in [*paths, *(sorted(errors) if not names or ERRORS in names else ())]:
        if store(path, whole=path.parent.name == ERRORS):
            print(f"{course.name(path)}: what a program prints is new")
    return 0


if __name__ == "__main__":
    sys.exit(main())

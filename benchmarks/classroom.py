"""What grading a class takes: a submission's seconds, as a ratio to ``nbgrader autograde`` on the same submissions.

Submissions are real: lesson 03 as it is released today, with the course's own answers, half of them or none, and other
right ones. A submission is the time between two results, read from when their files were written: the start is
left out, for both. The sandbox is on. Run it on an idle machine, with ``python -m benchmarks.classroom --size 100``.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parents[1]
ASSIGNMENT = "03_detach"
TARGET = 10.0
COURSE = [sys.executable, "-m", "course_utils.classroom"]


def submissions(count: int) -> Iterator[bytes]:
    """Notebooks as students hand them in, of the lesson that ``init`` and ``release`` give them."""
    from tests.classroom.handed_in import Notebook, solutions
    from tests.classroom.the_class import notebook_with, shared_out
    from tests.lessons.answers import right_answers, wrong_answers

    half = list(solutions(ASSIGNMENT, today=True))[::2]
    honest = [Notebook(ASSIGNMENT, today=True).solve(*own) for own in ((), half)] + [Notebook(ASSIGNMENT, today=True)]
    for answers in (right_answers("detach"), wrong_answers("detach")):
        honest += [notebook_with(ASSIGNMENT, chosen, today=True) for chosen in shared_out(answers, 4)]
    contents = [notebook.bytes() for notebook in honest]
    for number in range(count):
        yield contents[number % len(contents)]


def fill(course: Path, count: int) -> None:
    """Hands in so many submissions."""
    for number, content in enumerate(submissions(count)):
        folder = course / "submitted" / f"student{number:04d}" / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / f"{ASSIGNMENT}.ipynb").write_bytes(content)


def run(command: Sequence[str], course: Path) -> None:
    """Runs a command in a course folder.

    Raises:
        RuntimeError: it failed; with the last of what it said.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(ran.stdout + ran.stderr)[-2000:]}")


def seconds_each(course: Path, results: str) -> float:
    """Seconds between two results: from when the first file was written to the last."""
    written = sorted(path.stat().st_mtime for path in course.glob(results))
    return (written[-1] - written[0]) / (len(written) - 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=20, help="submissions in the class")
    parser.add_argument("--plain", type=int, default=5, help="submissions for nbgrader autograde")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as scratch:
        prepared, plain, ours = (Path(scratch) / name for name in ("prepared", "plain", "ours"))
        run([*COURSE, "init", str(prepared), "--lessons", ASSIGNMENT], REPOSITORY)
        run([*COURSE, "release"], prepared)
        for course, size in ((plain, options.plain), (ours, options.size)):
            shutil.copytree(prepared, course)
            fill(course, size)
        run(["nbgrader", "autograde", ASSIGNMENT], plain)
        run([*COURSE, "grade", "--workers", str(options.workers)], ours)
        theirs = seconds_each(plain, "autograded/*/*/*.ipynb")
        here = seconds_each(ours, "autograded/*/*/*.ipynb")
    reached = theirs / here >= TARGET
    print(f"a submission: nbgrader {theirs:.2f} s, here {here:.2f} s with {options.workers} workers")
    print(f"ratio {theirs / here:.1f}, target {TARGET:g}: {'reached' if reached else 'missed'}")
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())

"""What a learner waits for: the time from ``lesson.check`` to the card, for every exercise of every lesson.

The answers are the course's own, for which every claim is judged. Each lesson gets a fresh process, as a learner has a
fresh kernel: its first call of each exercise stands apart, the median is that of the calls after it. What PyTorch
itself imports at a process's first optimizer step (``torch._dynamo``) is timed apart from the checks. Run with
``python -m benchmarks.check_time``.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parents[1]
FIRST_SECONDS, MEDIAN_SECONDS = 1.0, 0.15  # targets: below these, an answer feels like an answer
# Its answer is a training script, which the check runs 22 times, once for ten epochs: nobody expects that at once.
SCRIPT_SECONDS = {"run_clinic": 1.0}


@dataclass
class Row:
    """The times of one exercise, in seconds."""

    lesson: str
    exercise: str
    first: float
    median: float
    slowest: float

    @property
    def target(self) -> float:
        return SCRIPT_SECONDS.get(self.exercise, MEDIAN_SECONDS)

    @property
    def reached(self) -> bool:
        return self.first < max(FIRST_SECONDS, 2 * self.target) and self.median < self.target


def measure(lesson: str, calls: int) -> list[Row]:
    """Times a lesson's checks in this process, which must not have checked anything before.

    Args:
        lesson: what ``Lesson(name)`` takes.
        calls: how many calls of each exercise after the first.

    Raises:
        RuntimeError: an answer of the course's own does not get full points.
    """
    from course_utils import Lesson
    from course_utils.authoring.answers import own_answers

    course = Lesson(lesson)
    rows = []
    for name, answer in own_answers(REPOSITORY / "notebooks" / "solutions" / f"{course.info.notebook}.ipynb").items():

        def call(name: str = name, answer: object = answer) -> None:
            if "Every claim held" not in course.check(name, answer)._repr_html_():
                raise RuntimeError(f"The solution of {lesson}, {name} does not get full points.")

        first, *later = [_seconds(call) for _ in range(calls + 1)]
        rows.append(Row(lesson, name, first, statistics.median(later), max(later)))
    return rows


def in_fresh_process(lesson: str, calls: int) -> tuple[float, list[Row]]:
    """``measure`` in a process and with a progress file of its own, and before it the seconds of PyTorch's own import.

    Raises:
        RuntimeError: the process failed; the message says why.
    """
    with TemporaryDirectory() as scratch:
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.check_time", "--measure", lesson, "--calls", str(calls)],
            cwd=REPOSITORY,
            env={**os.environ, "COURSE_UTILS_PROGRESS": str(Path(scratch) / "progress.sqlite3")},
            capture_output=True,
            text=True,
        )
    if result.returncode:
        raise RuntimeError(result.stderr.strip())
    imported, rows = json.loads(result.stdout)
    return imported, [Row(**values) for values in rows]


def _seconds(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="only these lessons")
    parser.add_argument("--calls", type=int, default=15, help="calls of each exercise after the first")
    parser.add_argument("--measure", metavar="LESSON", help="measure here and print JSON")
    options = parser.parse_args(arguments)
    if options.measure:
        try:
            importlib.import_module("torch")
            imported = _seconds(lambda: importlib.import_module("torch._dynamo"))
            rows = measure(options.measure, options.calls)
        except Exception as error:  # whatever it is, the process that asked prints it
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        print(json.dumps([imported, [asdict(row) for row in rows]]))
        return 0
    from course_utils.catalogue import LESSONS

    print(f"Targets: first call under {FIRST_SECONDS} s, median of {options.calls} more under {MEDIAN_SECONDS} s")
    print(f"{'lesson':23}{'exercise':23}{'first ms':>10}{'median ms':>11}{'of target':>11}{'slowest ms':>12}")
    missed, imports = 0, []
    for lesson in options.lessons or [info.name for info in LESSONS]:
        try:
            imported, rows = in_fresh_process(lesson, options.calls)
            imports.append(imported)
        except RuntimeError as error:  # said, counted as missed, and the other lessons are measured all the same
            print(f"{lesson:23}could not be measured: {str(error).splitlines()[0]}")
            rows, missed = [], missed + 1
        for row in rows:
            missed += not row.reached
            print(
                f"{row.lesson:23}{row.exercise:23}{row.first * 1e3:10.1f}{row.median * 1e3:11.1f}"
                f"{row.median / row.target:10.2f}x{row.slowest * 1e3:12.1f}"
                f"{'' if row.reached else '  missed'}"
            )
    if imports:
        print(f"PyTorch's own import before its first optimizer step: {statistics.median(imports) * 1e3:.0f} ms")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

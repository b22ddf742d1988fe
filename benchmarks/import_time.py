"""What ``import course_utils`` adds to ``import torch``.

Fresh processes import torch and then the course. Python's byte code is cached before the first round, as it is for
everybody but at the very first import. The package loads what it offers when it is asked for; the row of ``Lesson`` is
what the set-up cell of every notebook asks for. The target is held against processor time: once the files are cached an
import does nothing but compute, and a busy machine stretches wall time alone. Run with
``python -m benchmarks.import_time``.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
ADDED_SECONDS = 0.04  # target
CODE = """\
import time
def now(): return time.perf_counter(), time.process_time()
marks = [now()]
import {base}
marks.append(now())
import {added}
marks.append(now())
print(*(after - before for old, new in zip(marks, marks[1:]) for before, after in zip(old, new)))"""


class Times(NamedTuple):
    """Medians over the rounds, in seconds: of importing the base, and of the other module after it."""

    base: float
    base_processor: float
    added: float
    added_processor: float


def measure(base: str, added: str, rounds: int) -> Times:
    """Times the imports in ``rounds`` processes."""
    command = [sys.executable, "-c", CODE.format(base=base, added=added)]
    rows = []
    for _ in range(1 + rounds):  # the first fills the caches of byte code and of the disk
        printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        rows.append([float(number) for number in printed.split()])
    return Times(*map(statistics.median, zip(*rows[1:], strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    times = measure("torch", "course_utils", options.rounds)
    lesson = measure("torch", "course_utils.lesson", options.rounds)
    print(f"Target: course_utils adds under {ADDED_SECONDS} s of processor time; medians of {options.rounds} rounds")
    print(f"{'import':28}{'wall ms':>9}{'processor ms':>14}")
    rows = [
        ("torch", times.base, times.base_processor),
        ("course_utils, after torch", times.added, times.added_processor),
        ("with Lesson", lesson.added, lesson.added_processor),
    ]
    for name, wall, processor in rows:
        print(f"{name:28}{wall * 1e3:9.0f}{processor * 1e3:14.0f}")
    reached = times.added_processor < ADDED_SECONDS
    print("reached" if reached else "missed")
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())

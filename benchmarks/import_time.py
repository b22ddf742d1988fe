"""What ``import course_utils`` adds to ``import torch``.

Two kinds of fresh process take turns: one imports torch alone, one imports torch and then the course. Python's byte
code is cached before the first round, as it is for everybody but at the very first import. The package loads what it
offers when it is asked for; the row of ``Lesson`` is what the set-up cell of every notebook asks for. The target is
held against processor time: once the files are cached an import does nothing but compute, and a busy machine stretches
wall time alone. Run with ``python -m benchmarks.import_time``.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
print(*(after - before for i in (0, 1) for before, after in zip(marks[i], marks[i + 1])))"""


@dataclass
class Times:
    """Medians over the rounds, in seconds: of importing the base alone, and of the other module after it; wall time of
    both over that of the base alone."""

    base: float
    base_processor: float
    added: float
    added_processor: float
    ratio: float


def measure(base: str, added: str, rounds: int) -> Times:
    """Times the imports in ``rounds`` pairs of processes."""
    _imports(base, added)  # fills the caches of byte code and of the disk
    rows = []
    for _ in range(rounds):
        alone, alone_processor, *_nothing = _imports(base, base)
        again, _again_processor, after, after_processor = _imports(base, added)
        rows.append((alone, alone_processor, after, after_processor, (again + after) / alone))
    return Times(*map(statistics.median, zip(*rows, strict=True)))


def _imports(base: str, added: str) -> list[float]:
    """Wall and processor seconds of the base, then those of the other one."""
    code = CODE.format(base=base, added=added)
    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [float(number) for number in result.stdout.split()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    times = measure("torch", "course_utils", options.rounds)
    lesson = measure("torch", "course_utils.lesson", options.rounds)
    reached = times.added_processor < ADDED_SECONDS
    print(f"Target: course_utils adds under {ADDED_SECONDS} s of processor time; medians of {options.rounds} rounds")
    print(f"{'import':28}{'wall ms':>9}{'processor ms':>14}{'over torch alone':>18}")
    rows = [
        ("torch", times.base, times.base_processor, 1.0),
        ("course_utils, after torch", times.added, times.added_processor, times.added / times.base),
        ("with Lesson", lesson.added, lesson.added_processor, lesson.added / lesson.base),
    ]
    for name, wall, processor, ratio in rows:
        print(f"{name:28}{wall * 1e3:9.0f}{processor * 1e3:14.0f}{ratio:17.2f}x")
    print(f"{'torch and course_utils':28}{'':23}{times.ratio:17.2f}x{'' if reached else '  missed'}")
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())

"""What ``import course_utils`` adds to ``import torch``.

Two kinds of fresh process take turns: one imports torch alone, one imports torch and then the course. Python's byte
code is cached before the first round, as it is for everybody but at the very first import. Run with
``python -m benchmarks.import_time``.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ADDED_SECONDS = 0.1  # target
CODE = """\
import time
begin = time.perf_counter()
import {base}
between = time.perf_counter()
import {added}
print(between - begin, time.perf_counter() - between)"""


@dataclass
class Times:
    """Medians in seconds, and the ratio of whole processes' imports.

    Attributes:
        base: importing the base, in a process that imports nothing else.
        added: importing the other one after it.
        ratio: both over the base alone; the median over the rounds.
    """

    base: float
    added: float
    ratio: float


def measure(base: str, added: str, rounds: int) -> Times:
    """Times the imports in ``rounds`` pairs of processes."""
    _imports(base, added)  # fills the caches of byte code and of the disk
    alone, after, ratios = [], [], []
    for _ in range(rounds):
        base_alone, _nothing = _imports(base, base)
        base_again, added_after = _imports(base, added)
        alone.append(base_alone)
        after.append(added_after)
        ratios.append((base_again + added_after) / base_alone)
    return Times(statistics.median(alone), statistics.median(after), statistics.median(ratios))


def _imports(base: str, added: str) -> tuple[float, float]:
    code = CODE.format(base=base, added=added)
    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    first, second = result.stdout.split()
    return float(first), float(second)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    times = measure("torch", "course_utils", options.rounds)
    reached = times.added < ADDED_SECONDS
    print(f"Target: course_utils adds under {ADDED_SECONDS} s; medians of {options.rounds} rounds")
    print(f"{'import':28}{'ms':>9}{'over torch alone':>18}")
    print(f"{'torch':28}{times.base * 1e3:9.0f}{1:17.2f}x")
    print(f"{'course_utils, after torch':28}{times.added * 1e3:9.0f}{times.added / times.base:17.2f}x", end="")
    print("" if reached else "  missed")
    print(f"{'torch and course_utils':28}{(times.base + times.added) * 1e3:9.0f}{times.ratio:17.2f}x")
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())

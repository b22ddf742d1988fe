"""What watching for leaks costs: the time of a training step under ``watch_growth``, as a ratio of interleaved runs,
and whether a script of 4,000 calls slows down as it goes. And whether the amount is true: a leak of 1 MiB in each of
500 calls.

Every call is counted. Beside it stands what PyTorch asks for any dispatch mode, though it does nothing.

The step is that of ``memory_overhead``: 5 ms without a watch. A ratio is taken within a round, and its median over the
rounds is printed. Times are of the processor, for the one thread that does all the work. Run with
``python -m benchmarks.leak_watch``.
"""

import argparse
import contextlib
import statistics
import sys
import time

import torch

from benchmarks.memory_overhead import STEPS, Training, Way, of_duration, ratio, taken
from benchmarks.memory_sweep import EmptyMode
from course_utils import watch_growth

TARGET = 1.3
NO_SLOWER = 1.2
TRUE_WITHIN = 0.01
WAYS: dict[str, Way] = {
    "bare": lambda training: contextlib.nullcontext(),
    "an empty mode": lambda training: EmptyMode(),
    "watched": lambda training: watch_growth(),
}


def slowdown(training: Training, calls: int, leaks: bool) -> float:
    """The time of a step in the second half of a long loop over that in its second quarter.

    Holders are looked for each time that what is kept has doubled, so there is one search in both.
    """
    kept, times = [], []
    with watch_growth():
        for _ in range(calls):
            begun = time.thread_time_ns()
            training.step()
            if leaks:
                kept.append(training.model(training.x[:1]))
            times.append(time.thread_time_ns() - begun)
    return statistics.fmean(times[calls // 2 :]) / statistics.fmean(times[calls // 4 : calls // 2])


def amount_off(calls: int = 500, nbytes: int = 2**20) -> float:
    """By what share the total of a report is off, where every call leaves so many bytes."""
    model, kept = torch.nn.Linear(8, nbytes // 4 // 16), []
    with watch_growth() as growth, torch.no_grad():
        for _ in range(calls):
            kept.append(model(torch.ones(16, 8)))
    (found,) = growth.report().findings
    return abs(found.grown.peak / (calls * nbytes) - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=4000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, CPU, one thread, {options.rounds} rounds")
    training = of_duration(*STEPS["5 ms"])
    found = taken(training, WAYS, options.rounds, steps=200)
    for way in WAYS:
        print(f"{way:18}{ratio(found, way):6.2f}x")
    small = of_duration(*STEPS["0.8 ms"])
    slower = {leaks: slowdown(small, options.calls, leaks) for leaks in (False, True)}
    print(f"second half of {options.calls} calls over the second quarter:", end=" ")
    print(f"{slower[False]:.2f}x; with a leak {slower[True]:.2f}x")
    off = amount_off()
    print(f"1 MiB in each of 500 calls: the total is off by {off:.2%}")
    missed = ratio(found, "watched") > TARGET or max(slower.values()) > NO_SLOWER or off > TRUE_WITHIN
    verdict = "missed" if missed else "reached"
    print(f"targets {TARGET}x for a step, {NO_SLOWER}x for the second half, {TRUE_WITHIN:.0%} for the total: {verdict}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

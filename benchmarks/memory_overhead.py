"""What tracking memory costs: the time of a training step under each tool, as a ratio of interleaved runs.

Tools: an empty dispatch mode (the floor for anything that watches operations), this course's ``MemoryTracker`` with and
without phases, torch's own ``MemTracker``, and ``torch.profiler`` with ``profile_memory``. In each round every tool is
entered once, runs its steps, and is left; entering and leaving is timed apart. A ratio is taken within a round, and
its median over the rounds is printed. Times are of the processor, for the one thread that does all the work, so that
other programs do not count. Run with ``python -m benchmarks.memory_overhead``.
"""

import argparse
import contextlib
import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.memory import MemoryTracker

# Bare milliseconds and width of the layers; the batch grows until a step takes that long on this machine.
STEPS = {"0.8 ms": (0.8, 160), "5 ms": (5.0, 512)}
TARGETS = {("0.8 ms", "bare"): 2.2, ("5 ms", "bare"): 1.25, ("0.8 ms", "empty mode"): 1.3, ("5 ms", "empty mode"): 1.3}


@dataclass
class Row:
    """Medians of one tool on one step."""

    step: str
    tool: str
    step_ms: float
    over_bare: float
    over_empty: float
    around_ms: float  # entering and leaving


class EmptyMode(TorchDispatchMode):
    """A dispatch mode that only passes on what it is asked."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


class Training:
    """A small classifier with Adam; ``step`` is one step, inside three phases if there is a tracker."""

    def __init__(self, batch: int, width: int) -> None:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(256, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), foreach=False)
        self.x, self.y = torch.randn(batch, 256), torch.randint(0, 10, (batch,))

    def step(self, phase: Callable[[str], Any] = lambda name: contextlib.nullcontext()) -> None:
        with phase("forward"):
            loss = F.cross_entropy(self.model(self.x), self.y)
        with phase("backward"):
            loss.backward()
        with phase("step"):
            self.optimizer.step()
            self.optimizer.zero_grad()

    def plain_step(self) -> None:
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def of_duration(milliseconds: float, width: int) -> Training:
    """The training with the smallest batch whose bare step takes that long, warmed up."""
    for batch in range(16, 4096, 8):
        training = Training(batch, width)
        times = []
        for _ in range(30):
            begun = time.thread_time_ns()
            training.plain_step()
            times.append(time.thread_time_ns() - begun)
        if statistics.median(times[10:]) >= milliseconds * 1e6:
            break
    return training


@contextlib.contextmanager
def bare(training: Training) -> Iterator[Callable[[], None]]:
    yield training.plain_step


@contextlib.contextmanager
def empty_mode(training: Training) -> Iterator[Callable[[], None]]:
    with EmptyMode():
        yield training.plain_step


@contextlib.contextmanager
def tracker(training: Training) -> Iterator[Callable[[], None]]:
    with MemoryTracker(training.model, training.optimizer, training.x, training.y):
        yield training.plain_step


@contextlib.contextmanager
def tracker_with_phases(training: Training) -> Iterator[Callable[[], None]]:
    with MemoryTracker(training.model, training.optimizer, training.x, training.y) as mem:
        yield lambda: training.step(mem.phase)


@contextlib.contextmanager
def mem_tracker(training: Training) -> Iterator[Callable[[], None]]:
    from torch.distributed._tools.mem_tracker import MemTracker

    theirs = MemTracker()
    theirs.track_external(training.model, training.optimizer, training.x, training.y)

    def step() -> None:
        training.plain_step()
        theirs.reset_mod_stats()  # it refuses a second forward of a module without it

    with theirs:
        yield step


@contextlib.contextmanager
def profiler(training: Training) -> Iterator[Callable[[], None]]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True):
        yield training.plain_step


TOOLS = {
    "bare": bare,
    "empty mode": empty_mode,
    "tracker": tracker,
    "tracker, 3 phases": tracker_with_phases,
    "torch MemTracker": mem_tracker,
    "torch.profiler": profiler,
}


def measure(name: str, rounds: int, steps: int = 5) -> list[Row]:
    """Interleaved medians of every tool on one kind of step."""
    training = of_duration(*STEPS[name])
    inside: dict[str, list[float]] = {tool: [] for tool in TOOLS}
    around: dict[str, list[int]] = {tool: [] for tool in TOOLS}
    for _ in range(rounds):
        for tool, enter in TOOLS.items():
            gc.collect()  # or each tool pays for the garbage of the one before
            begun = time.thread_time_ns()
            with enter(training) as step:
                entered = time.thread_time_ns()
                step()  # what a tool does once, on the first operation of its kind
                times = [time.thread_time_ns()]
                for _ in range(steps):
                    step()
                    times.append(time.thread_time_ns())
            around[tool].append(time.thread_time_ns() - times[-1] + entered - begun)
            inside[tool].append(statistics.median(b - a for a, b in itertools.pairwise(times)))

    def ratio(tool: str, to: str) -> float:
        return statistics.median(a / b for a, b in zip(inside[tool], inside[to], strict=True))

    return [
        Row(
            name,
            tool,
            statistics.median(inside[tool]) / 1e6,
            ratio(tool, "bare"),
            ratio(tool, "empty mode"),
            statistics.median(around[tool]) / 1e6,
        )
        for tool in TOOLS
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, CPU, one thread, {options.rounds} rounds")
    print(f"{'step':8}{'tool':20}{'ms':>8}{'over bare':>12}{'over empty':>12}{'enter+exit ms':>15}")
    missed = 0
    for name in STEPS:
        for row in measure(name, options.rounds):
            verdict = ""
            if row.tool == "tracker":
                limits = {"bare": row.over_bare, "empty mode": row.over_empty}
                over = [f"{TARGETS[name, to]} over {to}" for to, ratio in limits.items() if ratio > TARGETS[name, to]]
                missed += len(over)
                verdict = "  missed: " + ", ".join(over) if over else "  targets reached"
            print(
                f"{row.step:8}{row.tool:20}{row.step_ms:8.3f}{row.over_bare:11.2f}x{row.over_empty:11.2f}x"
                f"{row.around_ms:15.2f}{verdict}"
            )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

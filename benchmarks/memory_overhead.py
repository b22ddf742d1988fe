"""What tracking memory costs: the time of a training step under each tool, as a ratio of interleaved runs.

Tools: an empty dispatch mode (the floor for anything that watches operations), this course's ``MemoryTracker``,
torch's own ``MemTracker``, and ``torch.profiler`` with ``profile_memory``. In each round every tool is entered once,
runs its steps, and is left (``taken``). A ratio is taken within a round, and its median over the rounds is printed.
Times are of the processor, for the one thread that does all the work, so that other programs do not count. Run with
``python -m benchmarks.memory_overhead``.
"""

import argparse
import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.memory_sweep import EmptyMode
from course_utils.memory import MemoryTracker

# Bare milliseconds and width of the layers; the batch grows until a step takes that long on this machine.
STEPS = {"0.8 ms": (0.8, 160), "5 ms": (5.0, 512)}
TARGETS = {("0.8 ms", "bare"): 2.2, ("5 ms", "bare"): 1.25, ("0.8 ms", "empty mode"): 1.3, ("5 ms", "empty mode"): 1.3}


class Training:
    """A small classifier with Adam; ``after`` is called behind each step."""

    def __init__(self, batch: int, width: int) -> None:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(256, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), foreach=False)
        self.x, self.y = torch.randn(batch, 256), torch.randint(0, 10, (batch,))
        self.after: Callable[[], object] = bool

    def step(self) -> None:
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.after()


Way = Callable[[Training], contextlib.AbstractContextManager[Any]]


def of_duration(milliseconds: float, width: int) -> Training:
    """The training with the smallest batch whose bare step takes that long, warmed up."""
    for batch in range(16, 4096, 8):
        training = Training(batch, width)
        times = []
        for _ in range(30):
            begun = time.thread_time_ns()
            training.step()
            times.append(time.thread_time_ns() - begun)
        if statistics.median(times[10:]) >= milliseconds * 1e6:
            break
    return training


def taken(training: Training, ways: Mapping[str, Way], rounds: int, steps: int) -> dict[str, list[float]]:
    """Processor milliseconds of a step in each round, for each way to run it; the ways take turns."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, enter in ways.items():
            gc.collect()  # or each pays for the garbage of the one before
            with enter(training):
                training.step()  # what is done once, on the first operation of its kind
                begun = time.thread_time_ns()
                for _ in range(steps):
                    training.step()
                found[way].append((time.thread_time_ns() - begun) / steps / 1e6)
    return found


def ratio(found: Mapping[str, list[float]], way: str, to: str = "bare") -> float:
    """The median over the rounds."""
    return statistics.median(a / b for a, b in zip(found[way], found[to], strict=True))


@contextlib.contextmanager
def mem_tracker(training: Training) -> Iterator[None]:
    from torch.distributed._tools.mem_tracker import MemTracker

    theirs = MemTracker()
    theirs.track_external(training.model, training.optimizer, training.x, training.y)
    training.after = theirs.reset_mod_stats  # it refuses a second forward of a module without it
    with theirs:
        yield
    training.after = bool


TOOLS: dict[str, Way] = {
    "bare": lambda training: contextlib.nullcontext(),
    "empty mode": lambda training: EmptyMode(),
    "tracker": lambda training: MemoryTracker(training.model, training.optimizer, training.x, training.y),
    "torch MemTracker": mem_tracker,
    "torch.profiler": lambda training: torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, CPU, one thread, {options.rounds} rounds")
    print(f"{'step':8}{'tool':20}{'ms':>8}{'over bare':>12}{'over empty':>12}")
    missed = []
    for name, (milliseconds, width) in STEPS.items():
        found = taken(of_duration(milliseconds, width), TOOLS, options.rounds, steps=5)
        for tool, times in found.items():
            over = {to: ratio(found, tool, to) for to in ("bare", "empty mode")}
            print(f"{name:8}{tool:20}{statistics.median(times):8.3f}", *(f"{value:10.2f}x" for value in over.values()))
            if tool == "tracker":
                missed += [f"{name} over {to}" for to, value in over.items() if value > TARGETS[name, to]]
    print(f"missed: {', '.join(missed)}" if missed else "targets reached")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

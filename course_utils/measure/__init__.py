"""Compare ways of doing something (``compare``), and, here, what it takes: what calls cost in FLOPs (PyTorch's
``FlopCounterMode``) and in time, taking turns (``in_turns``) on so many threads of the CPU (``cpu_threads``); and what
they were measured on (``environment``).
"""

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode as FlopCounterMode

from course_utils.base import versions
from course_utils.base.text import aligned, format_bytes
from course_utils.base.torch_private import flop_dispatch

# The counter's wrapper (since 2.11) asks the function for a version that the compiler leaves alone, and makes one where
# there is none, for which it loads the compiler: seconds. As long as nothing is compiled, the function itself does.
if counting := getattr(flop_dispatch, "__wrapped__", None):
    vars(counting)["__dynamo_disable"] = counting

# A sample shorter than this says more about the clock than about the work.
_SAMPLE_SECONDS = 0.002
_MOST_CALLS = 200


def in_turns(
    ways: Mapping[str, Callable[[], Any]],
    rounds: int,
    before: Callable[[], Any] | None = None,
    clock: Callable[[], float] | None = None,
) -> dict[str, list[float]]:
    """Seconds of one call of each function, in each round; a short function is called several times in a round.

    ``torch.utils.benchmark.Timer`` calls a function again and again with nothing in between, so it cannot do this.

    ``before`` is called before each call, and not timed; without it the calls of a round follow one upon the other,
    after one that is not timed. ``clock`` is in seconds, and by default that on the wall.
    """
    clock = clock or perf_counter

    def sample(way: Callable[[], Any], calls: int) -> float:
        taken = 0.0
        for at_once in [1] * calls if before else [calls]:
            (before or way)()
            _finish()
            start = clock()
            for _ in range(at_once):
                result = way()
            _finish()
            taken += clock() - start
            del result  # freeing it is not what is compared
        return taken / calls

    counts = {name: round(_SAMPLE_SECONDS / max(sample(way, 1), 1e-9)) for name, way in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        # Each time another one first: what slows the machine down meets all alike.
        turn, names = number % len(ways), list(ways)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(sample(ways[name], max(1, min(_MOST_CALLS, counts[name]))))
    return seconds


def _finish() -> None:
    """Waits for the device: its operations return before they are done."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Runs on so many threads. On a busy machine, waiting for a second one takes longer than small operations."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)  # torch.utils.benchmark can do this too, and takes 0.2 s to import
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, repr=False)
class Environment:
    """The versions and the device that a lesson meets.

    Attributes:
        python: version of Python.
        torch: version of PyTorch, with its build.
        device: where the experiments run: ``cuda`` or ``cpu``.
        device_name: the GPU's name, or the processor's.
        device_bytes: the GPU's memory in bytes; None on the CPU.
        threads: how many threads an operation of PyTorch may use on the CPU.
        note: that the course was not tried on this PyTorch, where it is a newer one; else empty.
    """

    python: str
    torch: str
    device: str
    device_name: str
    device_bytes: int | None
    threads: int
    note: str = ""

    def __repr__(self) -> str:
        memory = f", {format_bytes(self.device_bytes)}" if self.device_bytes else ""
        return aligned(
            [
                ("Python", self.python),
                ("PyTorch", self.torch),
                ("device", f"{self.device} ({self.device_name}{memory})"),
                ("threads", str(self.threads)),
                *([("note", self.note)] if self.note else []),
            ]
        )


def environment() -> Environment:
    """What this machine runs the lessons on: versions of Python and PyTorch, device, memory, threads.

    Returns:
        Plain data, read now; prints as four lines, and a fifth where PyTorch is newer than the course. With CUDA it is
        device 0, and ``device_bytes`` is all its memory.
    """
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        device, name, nbytes = "cuda", properties.name, properties.total_memory
    else:
        device, name, nbytes = "cpu", platform.machine(), None
    threads = torch.get_num_threads()
    return Environment(platform.python_version(), torch.__version__, device, name, nbytes, threads, versions.note())

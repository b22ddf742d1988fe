"""What asking why costs: a training step under ``watch_why``, and under all three watches, as in ``memory_overhead``;
and the time that ``why`` takes after an error in a graph of 20,000 nodes. Run with ``python -m benchmarks.why``.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.memory_overhead import STEPS, Training, Way, of_duration, ratio, taken
from course_utils import MemoryTracker, watch_growth, watch_why, why

STEP, SECONDS, NODES = 1.5, 1.0, 20_000


@contextlib.contextmanager
def together(training: Training) -> Iterator[None]:
    with MemoryTracker(training.model, training.optimizer, training.x, training.y), watch_growth(), watch_why():
        yield


WAYS: dict[str, Way] = {"bare": contextlib.nullcontext, "watched": lambda training: watch_why(), "all three": together}


def edited(x: torch.Tensor) -> None:
    first = h = x.exp()
    for _ in range(NODES // 2):
        h = h * 1.0001 + first
    first += 1
    h.sum().backward()


def twice(x: torch.Tensor) -> None:
    h = x
    for _ in range(NODES):
        h = h.tanh()
    loss = h.sum()
    loss.backward()
    loss.backward()


def seconds(fails: Callable[[torch.Tensor], None]) -> float:
    """How long it takes to say why a program failed."""
    try:
        fails(torch.rand(3, requires_grad=True))
    except RuntimeError as error:
        begun = time.perf_counter()
        why(error)
        return time.perf_counter() - begun
    raise AssertionError(f"{fails.__name__} raised nothing")


def asked() -> float:
    """The same for a question about a tensor."""
    h = x = torch.rand(3, requires_grad=True)
    for _ in range(NODES):
        h = h.sin()
    loss = (h - 2).log().sum()
    begun = time.perf_counter()
    why(loss)
    why(x, loss)
    return time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, CPU, one thread, {options.rounds} rounds")
    found = taken(of_duration(*STEPS["5 ms"]), WAYS, options.rounds, steps=100)
    print("a step of 5 ms,", ", ".join(f"{name}: {ratio(found, name):.2f}x" for name in WAYS))
    answers = {fails.__name__: seconds(fails) for fails in (edited, twice)} | {"a NaN, and a leaf": asked()}
    print(f"{NODES} nodes,", ", ".join(f"{name}: {value:.2f} s" for name, value in answers.items()))
    missed = ratio(found, "watched") > STEP or max(answers.values()) > SECONDS
    print(f"targets {STEP}x for a step, {SECONDS} s for an answer: {'missed' if missed else 'reached'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

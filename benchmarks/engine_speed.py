"""What lesson 12's engine costs beside PyTorch: ``python -m benchmarks.engine_speed``.

The lesson's chain of 200 nodes, forward and backward, on the course's own engine, on PyTorch, and as the arithmetic
alone: the same NumPy operations without tensors, nodes or walk. All take turns in one process on one thread, and the
processor's time is counted, which goes on only while the process runs. What other work still does to it only ever adds,
so the shortest run says what each costs.
"""

import argparse
import sys
from time import process_time
from typing import Any

import numpy as np
import torch

from course_utils.engine import Engine
from course_utils.measure.timing import in_turns

# What lesson 12 says: bookkeeping costs several times more in Python; with many numbers, NumPy does most of the work.
OF_PYTORCH, OF_ARITHMETIC = 2.0, 2.0
ONE, MANY = 1, 100_000


def chain(lib: Any, size: int) -> np.ndarray:
    """The lesson's chain; returns the gradient."""
    x = y = lib.tensor(np.full(size, 0.5), requires_grad=True)
    for _ in range(100):
        y = (y + x).tanh()
    y.sum().backward()
    return np.asarray(x.grad)


def arithmetic(size: int) -> np.ndarray:
    """What the chain computes; returns the gradient."""
    x = y = np.full(size, 0.5)
    results = []
    for _ in range(100):
        y = np.tanh(y + x)
        results.append(y)
    y.sum()
    gradient, total = np.ones(size), np.zeros(size)
    for y in reversed(results):
        gradient = gradient * (1 - y * y)
        total = total + gradient
    return total + gradient


def shortest(size: int, rounds: int) -> dict[str, float]:
    """Seconds of the processor's for each way."""
    engine = Engine()
    ways = {
        "engine": lambda: chain(engine, size),
        "PyTorch": lambda: chain(torch, size),
        "arithmetic": lambda: arithmetic(size),
    }
    return {way: min(taken) for way, taken in in_turns(ways, rounds, clock=process_time).items()}


def main() -> int:
    """Prints the table; returns 1 where a ratio is not what the lesson says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, NumPy {np.__version__}, one thread, {rounds} rounds\n")
    print("numbers   engine / PyTorch   engine / arithmetic")
    ratios = {}
    for size in (ONE, 1_000, MANY):
        taken = shortest(size, rounds)
        ratios[size] = [taken["engine"] / taken[way] for way in ("PyTorch", "arithmetic")]
        print(f"{size:7,}   {ratios[size][0]:16.2f}   {ratios[size][1]:19.2f}")
    (of_pytorch, _), (_, of_arithmetic) = ratios[ONE], ratios[MANY]
    print(
        f"\nTargets: at least {OF_PYTORCH} of PyTorch's time with one number, at most {OF_ARITHMETIC} of the", end=" "
    )
    print(f"arithmetic's with {MANY:,}.")
    return int(of_pytorch < OF_PYTORCH or of_arithmetic > OF_ARITHMETIC)


if __name__ == "__main__":
    sys.exit(main())

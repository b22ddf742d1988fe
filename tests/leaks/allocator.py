"""Bytes that the CPU allocator itself counts from call to call, by ``torch.profiler``: an oracle for reports."""

import itertools
import statistics
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from benchmarks.allocator import MARK_BYTES, allocations
from tests.leaks.drive import run


def bytes_at_calls(path: Path) -> list[int]:
    """Bytes allocated when each call of the script's model begins, or each gradient, above those at the first."""
    first: list[int] = []

    def mark(module: torch.nn.Module, args: Any) -> None:
        if next(module.parameters(), None) is not None and (not first or first[0] == id(module)):
            first[:] = [id(module)]
            torch.empty(MARK_BYTES, dtype=torch.uint8)

    def mark_and_differentiate(*args: Any, **options: Any) -> Any:
        if not first or first[0] == 0:  # a script without modules
            first[:] = [0]
            torch.empty(MARK_BYTES, dtype=torch.uint8)
        return differentiate(*args, **options)

    handle = register_module_forward_pre_hook(mark)
    differentiate, torch.autograd.grad = torch.autograd.grad, mark_and_differentiate
    try:
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
        ) as profile:
            run(path)
    finally:
        handle.remove()
        torch.autograd.grad = differentiate
    total, marks = 0, []
    for size, _ in allocations(profile):
        if size == MARK_BYTES:
            marks.append(total)
        total += size
    return [total - marks[0] for total in marks]


def bytes_per_call(path: Path, *, while_it_rises: bool = False) -> float:
    """How many bytes more are allocated with every call, once the first few have run.

    Args:
        path: the script.
        while_it_rises: the usual rise alone, for a script that gives all back from time to time.
    """
    totals = bytes_at_calls(path)
    steps = [after - before for before, after in itertools.pairwise(totals[5:])]
    if while_it_rises:
        return statistics.median(step for step in steps if step > 0)
    steps = steps[-(len(steps) // 30 * 30) :]  # whole rounds, of 2, 3 or 5 calls
    return sum(steps) / len(steps)

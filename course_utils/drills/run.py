"""Runs programs of drills (``execute``), apart from whatever the caller has set (``apart``)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

T = TypeVar("T")


def space() -> dict[str, Any]:
    """What a program finds imported."""
    return {"__name__": "drill", "torch": torch, "nn": nn, "F": F, "Thread": threading.Thread}


def execute(lines: Sequence[str], names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs lines where grad mode is on and with a fixed seed; returns their names.

    A last statement that goes backward may fail: a program without a line's effect can have nothing to go through.
    """
    names = space() if names is None else names
    torch.default_generator.manual_seed(0)
    end = statements(lines)[-1][0] - 1
    with torch.enable_grad():
        exec("\n".join(lines[:end]), names)
        last = "\n".join(lines[end:])
        try:
            exec(last, names)
        except RuntimeError:
            if "backward()" not in last:
                raise
    return names


def statements(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    """The program's statements, each with the numbers of its first and last line and its text."""
    starts = [number for number, line in enumerate(lines) if line and not line.startswith(" ")]
    ends = [*starts[1:], len(lines)]
    return [(start + 1, end, "\n".join(lines[start:end])) for start, end in zip(starts, ends, strict=True)]


def apart(function: Callable[[], T]) -> T:
    """The function's result.

    It runs in a thread of its own, where grad mode is on and no other mode is active, with float32 as default dtype.
    The caller's modes, default dtype and random state stay as they are.

    Raises:
        Exception: what the function raised.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(function())
        except BaseException as error:
            failed.append(error)

    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), torch.autograd.set_detect_anomaly(False):
        warnings.simplefilter("ignore")  # reading `.grad` of a tensor that is no leaf warns; here it is the question
        torch.set_default_dtype(torch.float32)
        try:
            thread = threading.Thread(target=work, name="drill", daemon=True)
            thread.start()
            thread.join()
        finally:
            torch.set_default_dtype(before)
    if failed:
        raise failed[0]
    return found[0]

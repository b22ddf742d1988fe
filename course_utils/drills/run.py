"""Runs programs of drills (``execute``), apart from whatever the caller has set (``apart``)."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

T = TypeVar("T")


def space() -> dict[str, Any]:
    """What a program finds imported; what it draws, it draws from a fixed seed."""
    torch.default_generator.manual_seed(0)
    return {"__name__": "drill", "torch": torch, "nn": nn, "F": F, "Thread": threading.Thread}


def execute(lines: Sequence[str]) -> dict[str, Any]:
    """Runs a program where grad mode is on; returns its names.

    A last line that goes backward may fail: a program without a line's effect can have nothing to go through.
    """
    names, (*body, last) = space(), lines
    with torch.enable_grad():
        goes_backward = last.endswith("backward()") and not last.startswith(" ")
        exec("\n".join(body if goes_backward else lines), names)
        if goes_backward:
            with contextlib.suppress(RuntimeError):
                exec(last, names)
    return names


def tensors(names: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Those among a program's names."""
    return {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}


def apart(function: Callable[[], T]) -> T:
    """What the function returns or raises, in a thread of its own: there grad mode is on and no other mode is active,
    with float32 as default dtype. The caller's modes, default dtype and random state stay as they are."""
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

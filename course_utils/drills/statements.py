"""A drill's program as Python runs it: what it finds imported (``space``), the whole of it (``run_all``), its single
statements (``statements``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course_utils.drills.programs import Program

Answers = dict[str, "bool | str"]


def space() -> dict[str, Any]:
    """What a program finds imported."""
    return {"__name__": "drill", "torch": torch, "nn": nn, "F": F, "Thread": threading.Thread}


def run_all(program: Program) -> dict[str, Any]:
    """Runs a program; returns its names."""
    names = space()
    exec(compile(program.code, "<drill>", "exec"), names)
    return names


def statements(lines: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """The program's statements, each with its first and last line."""
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start + 1, end, "\n".join(lines[start:end])

"""How far grading is (``Tally``): a bar with counts and time left in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any, TextIO

from course_utils.classroom.judging.results import Report

EVERY_SECONDS = 15.0  # between two plain lines: a log of an hour's run stays short


class Tally:
    """Counts what is done and shows it, for the length of a ``with`` block.

    Args:
        total: how many submissions there are to grade.
        stream: where to show it; standard error by default, so that the table alone stands on standard output.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.counts: Counter[str] = Counter()
        self._stream = stream or sys.stderr
        self._bar: Any = None

    def __enter__(self) -> Tally:
        self._begun = self._last = time.monotonic()
        if self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            parts = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[counts]}"))
            self._bar = Progress("grading", *parts, console=Console(file=self._stream))
            self._bar.start()
            self._task = self._bar.add_task("grading", total=self.total, counts="")
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif done := self.counts.total():
            self.say(f"{done} of {self.total} graded in {_words(time.monotonic() - self._begun)}{self._said()}")

    def add(self, report: Report | None) -> None:
        """One more is done; None: without a result."""
        self.counts[_kind(report)] += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, counts=self._said().removeprefix(": "))
        elif time.monotonic() - self._last >= EVERY_SECONDS:
            self._last = time.monotonic()
            done = self.counts.total()
            left = (self._last - self._begun) / done * (self.total - done)
            pace = f", at this pace {_words(left)} left" if done < self.total else ""
            self.say(f"{done} of {self.total} graded{pace}{self._said()}")

    def say(self, text: str) -> None:
        """Shows a line, without tearing the bar apart."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    def _said(self) -> str:
        said = [f"{number} {kind}" for kind, number in sorted(self.counts.items()) if kind != "graded"]
        return ": " + ", ".join(said) if said else ""


def _kind(report: Report | None) -> str:
    """What a teacher watches for while it runs."""
    if report is None:
        return "without a result"
    if any(result.outcome == "unreadable" for result in report.exercises):
        return "unreadable"
    return "to look at by hand" if report.reviews else "graded"


def _words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

"""How the answers of a lesson are written down (``Right``, ``Wrong``).

A lesson's module imports nothing else of the tests: ``tests/classroom`` puts it into a notebook as it stands, for the
sandbox. So a helper that two lessons need stands in both.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Right:
    """A right answer that is written differently from the course's own."""

    exercise: str
    name: str
    answer: Any

    @property
    def label(self) -> str:
        return self.name


@dataclass(frozen=True)
class Wrong:
    """A wrong answer, the misconception (by its key) that the check must name, and where it matters what it earns."""

    exercise: str
    misconception: str
    answer: Any
    name: str = ""
    earns: float | None = None

    @property
    def label(self) -> str:
        return self.name or self.misconception

"""How the answers of a lesson are written down (``Right``).

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

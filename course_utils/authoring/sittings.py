"""A learner's time: what a lesson's sittings are (``parts``), how long they take (``estimate``, ``sittings``), and
where the lesson says so (``with_minutes``).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nbformat import NotebookNode

# What first readers needed: prose is read twice, code has to be understood, a long contract takes half as much again.
_WORDS_A_MINUTE, _LINES_A_MINUTE, _MINUTES_A_PREDICTION = 110, 6, 2
_LONG_WORDS, _LONG_FACTOR = 90, 1.5
_STEP = 5  # what a lesson says is a multiple of it
_NO_WORDS = re.compile(r"\]\([^)]*\)|<[^>]*>")
_HEADED = re.compile(r"^#+ .*?(\d+) minutes?\b", re.MULTILINE)
_BREAK = re.compile(r"^(\*Your (?:second|third|fourth) sitting begins here; it takes )\d+(?= minutes\.)", re.MULTILINE)
_SEVERAL = re.compile(r"(?:two|three|four)\s+sittings,\s+of\s+[\d,\s]+?and\s+\d+\s+minutes")
_ONE = re.compile(r"\b\d+(?=\s+minutes\b)")
_COUNTS = ("no", "one", "two", "three", "four")


@dataclass(frozen=True)
class Estimate:
    """What a learner meets in one sitting.

    Attributes:
        words: of Markdown.
        lines: of code, blank ones, answers, checks and the set-up left out.
        predictions: calls of ``lesson.predict``.
        headed: the minutes of exercises and of the written question, as their headings say; longer below a long
            contract.
    """

    words: int
    lines: int
    predictions: int
    headed: float

    @property
    def minutes(self) -> float:
        reading = self.words / _WORDS_A_MINUTE + self.lines / _LINES_A_MINUTE
        return reading + self.predictions * _MINUTES_A_PREDICTION + self.headed


def estimate(cells: Iterable[NotebookNode]) -> Estimate:
    """How long a learner is at these cells: reading, predicting, and answering where they head an exercise."""
    words = lines = predictions = 0
    headed = 0.0
    for cell in cells:
        graded = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "markdown":
            if graded.get("solution"):  # the model answer, which the learner's copy lacks
                continue
            for heading in _HEADED.finditer(cell.source):
                long = len(cell.source[heading.end() :].split()) > _LONG_WORDS
                headed += int(heading[1]) * (_LONG_FACTOR if long else 1)
            words += len(_NO_WORDS.sub("", cell.source).split())
        elif not graded:
            lines += sum(bool(line.strip()) for line in cell.source.splitlines())
            predictions += cell.source.count("lesson.predict(")
    return Estimate(words, lines, predictions, headed)


def parts(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each sitting; each but the first begins where a cell says so."""
    found: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and _BREAK.search(cell.source):
            found.append([])
        found[-1].append(cell)
    return found


def sittings(notebook: NotebookNode) -> tuple[int, ...]:
    """How many minutes each sitting takes, to five minutes."""
    return tuple(max(_STEP, _STEP * round(estimate(part).minutes / _STEP)) for part in parts(notebook))


def said(minutes: tuple[int, ...]) -> str:
    """What a lesson's opening says of its time: ``"two sittings, of 40 and 45 minutes"``."""
    if len(minutes) == 1:
        return f"{minutes[0]} minutes"
    *first, last = map(str, minutes)
    return f"{_COUNTS[len(minutes)]} sittings, of {', '.join(first)} and {last} minutes"


def with_minutes(notebook: NotebookNode, minutes: tuple[int, ...]) -> NotebookNode:
    """The same notebook; its opening and the cells at which later sittings begin say these minutes."""
    opening, *others = [cell for cell in notebook.cells if cell.cell_type == "markdown"] or [None]
    if opening is not None and len(minutes) == 1:
        opening.source = _ONE.sub(str(minutes[0]), opening.source, count=1)
    elif opening is not None:
        opening.source = _SEVERAL.sub(said(minutes), opening.source)
    later = iter(minutes[1:])
    for cell in others:
        cell.source = _BREAK.sub(lambda found: f"{found[1]}{next(later)}", cell.source)
    return notebook

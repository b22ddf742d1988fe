"""A learner's time: what a lesson's sittings are (``parts``), how long they take (``estimate``, ``sittings``), and
where the lesson says so (``with_minutes``).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nbformat import NotebookNode

# An estimate. People read plain English at 238 words a minute (https://doi.org/10.1016/j.jml.2019.104047); this is
# neither plain nor read once. What an exercise takes stands in its heading, and so does the written question's time.
_WORDS_A_MINUTE, _LINES_A_MINUTE, _MINUTES_A_PREDICTION = 130, 10, 1.5
_STEP = 5  # what a lesson says is a multiple of it, and stays while it is no farther than this from the estimate
_NO_WORDS = re.compile(r"\]\([^)]*\)|<[^>]*>")
_HEADED = re.compile(r"^#+ .*?(\d+) minutes?\b", re.MULTILINE)
_BREAK = re.compile(r"^(\*Your second sitting begins here; it takes )\d+(?= minutes\.)", re.MULTILINE)
_TWO = re.compile(r"(two\s+sittings,\s+of\s+)\d+(\s+and\s+)\d+(?=\s+minutes)")
_ONE = re.compile(r"\b\d+(?=\s+minutes\b)")


@dataclass(frozen=True)
class Estimate:
    """What a learner meets in one sitting.

    Attributes:
        words: of Markdown.
        lines: of code, blank ones and answers left out.
        predictions: calls of ``lesson.predict``.
        headed: the minutes that headings say, of exercises and of the written question.
    """

    words: int
    lines: int
    predictions: int
    headed: int

    @property
    def minutes(self) -> float:
        reading = self.words / _WORDS_A_MINUTE + self.lines / _LINES_A_MINUTE
        return reading + self.predictions * _MINUTES_A_PREDICTION + self.headed


def estimate(cells: Iterable[NotebookNode]) -> Estimate:
    """How long a learner is at these cells: reading, predicting, and answering where they head an exercise."""
    words = lines = predictions = headed = 0
    for cell in cells:
        if cell.cell_type == "markdown":
            if cell.metadata.get("nbgrader", {}).get("solution"):  # the model answer, which the learner's copy lacks
                continue
            headed += sum(int(found) for found in _HEADED.findall(cell.source))
            words += len(_NO_WORDS.sub("", cell.source).split())
        elif "BEGIN SOLUTION" not in cell.source:
            lines += sum(bool(line.strip()) for line in cell.source.splitlines())
            predictions += cell.source.count("lesson.predict(")
    return Estimate(words, lines, predictions, headed)


def parts(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each sitting; the second begins where a cell says so."""
    found: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and _BREAK.search(cell.source) and len(found) == 1:
            found.append([])
        found[-1].append(cell)
    return found


def sittings(notebook: NotebookNode, stated: tuple[int, ...]) -> tuple[int, ...]:
    """How many minutes each sitting takes: what is stated where the estimate is near, else the estimate.

    Args:
        notebook: the lesson.
        stated: what the catalogue says.
    """
    estimates = [estimate(part).minutes for part in parts(notebook)]
    if len(stated) == len(estimates) and all(abs(a - b) <= _STEP for a, b in zip(stated, estimates, strict=True)):
        return stated
    return tuple(max(_STEP, _STEP * round(minutes / _STEP)) for minutes in estimates)


def with_minutes(notebook: NotebookNode, minutes: tuple[int, ...]) -> NotebookNode:
    """The same notebook; its opening and the cell at which the second sitting begins say these minutes."""
    opening, *others = [cell for cell in notebook.cells if cell.cell_type == "markdown"] or [None]
    if opening is not None and len(minutes) == 1:
        opening.source = _ONE.sub(str(minutes[0]), opening.source, count=1)
    elif opening is not None:
        opening.source = _TWO.sub(rf"\g<1>{minutes[0]}\g<2>{minutes[1]}", opening.source)
    for cell in others:
        cell.source = _BREAK.sub(rf"\g<1>{minutes[-1]}", cell.source)
    return notebook

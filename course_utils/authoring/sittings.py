"""A learner's time: what a lesson's sittings are (``parts``), how long they take (``minutes``, ``sittings``), and
where the lesson says so (``with_minutes``).
"""

import re
from collections.abc import Iterable

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


def minutes(cells: Iterable[NotebookNode]) -> float:
    """How long a learner is at these cells: reading, predicting, and answering where they head an exercise."""
    taken = headed(cells := list(cells))
    for cell in cells:
        graded = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "markdown" and not graded.get("solution"):  # the model answer, which learners lack
            taken += len(_NO_WORDS.sub("", cell.source).split()) / _WORDS_A_MINUTE
        elif cell.cell_type == "code" and not graded:
            taken += sum(bool(line.strip()) for line in cell.source.splitlines()) / _LINES_A_MINUTE
            taken += cell.source.count("lesson.predict(") * _MINUTES_A_PREDICTION
    return taken


def headed(cells: Iterable[NotebookNode]) -> float:
    """The minutes that the headings of exercises and of the written question say, more below a long contract."""
    taken = 0.0
    for cell in cells:
        for heading in _HEADED.finditer(cell.source) if cell.cell_type == "markdown" else ():
            long = len(cell.source[heading.end() :].split()) > _LONG_WORDS
            taken += int(heading[1]) * (_LONG_FACTOR if long else 1)
    return taken


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
    return tuple(max(_STEP, _STEP * round(minutes(part) / _STEP)) for part in parts(notebook))


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

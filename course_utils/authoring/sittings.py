"""A learner's time: how long a lesson's sittings take (``sittings``), and where it says so (``with_minutes``)."""

import re

from nbformat import NotebookNode

# An estimate. People read plain English at 238 words a minute (https://doi.org/10.1016/j.jml.2019.104047); this is
# neither plain nor read once. What an exercise takes stands in its heading, and so does the written question's time.
_WORDS_A_MINUTE, _LINES_A_MINUTE, _MINUTES_A_PREDICTION = 160, 24, 1
_STEP = 5  # what a lesson says is a multiple of it, and stays while it is no farther than this from the estimate
_NO_WORDS = re.compile(r"\]\([^)]*\)|<[^>]*>")
_HEADED = re.compile(r"^#+ .*?(\d+) minutes?\b", re.MULTILINE)
_BREAK = re.compile(r"^(\*Your second sitting begins here; it takes )\d+(?= minutes\.)", re.MULTILINE)
_TWO = re.compile(r"(two\s+sittings,\s+of\s+)\d+(\s+and\s+)\d+(?=\s+minutes)")
_ONE = re.compile(r"\b\d+(?=\s+minutes\b)")


def minutes(cell: NotebookNode) -> float:
    """How long a learner is at a cell: reading it, predicting, and answering where it heads an exercise."""
    if cell.cell_type == "markdown":
        headed = sum(int(found) for found in _HEADED.findall(cell.source))
        return headed + len(_NO_WORDS.sub("", cell.source).split()) / _WORDS_A_MINUTE
    if "BEGIN SOLUTION" in cell.source:
        return 0.0
    lines = sum(bool(line.strip()) for line in cell.source.splitlines())
    return lines / _LINES_A_MINUTE + _MINUTES_A_PREDICTION * cell.source.count("lesson.predict(")


def sittings(notebook: NotebookNode, stated: tuple[int, ...]) -> tuple[int, ...]:
    """How many minutes each sitting takes: what is stated where the estimate is near, else the estimate.

    Args:
        notebook: the lesson; its second sitting begins where a cell says so.
        stated: what the catalogue says.
    """
    parts: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and _BREAK.search(cell.source) and len(parts) == 1:
            parts.append([])
        parts[-1].append(cell)
    estimates = [sum(map(minutes, part)) for part in parts]
    if len(stated) == len(parts) and all(abs(a - b) <= _STEP for a, b in zip(stated, estimates, strict=True)):
        return stated
    return tuple(max(_STEP, _STEP * round(estimate / _STEP)) for estimate in estimates)


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

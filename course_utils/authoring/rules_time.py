"""Rules about a learner's time: how long a sitting may be, that the lesson says so, and that nobody reads for long
without writing something (``RULES``).
"""

import re
from collections.abc import Iterator

from course_utils.authoring.problems import Cell, Notebook, Problem
from course_utils.authoring.sittings import estimate, parts, said

MAX_CELLS = 65
MAX_MINUTES = 52  # 50, as it is printed
READING_MINUTES = 20  # beside an exercise that fills a sitting by itself, as the clinic's two do
FIRST_OWN_CELL = 12  # the learner writes something in it or before it
_NOW_CHANGE = re.compile(r"\W*Now change this\b")


def length(notebook: Notebook) -> Iterator[Problem]:
    """A lesson has no more cells than its sittings can hold."""
    if len(notebook.cells) > MAX_CELLS:
        what = f"The lesson has {len(notebook.cells)} cells; {MAX_CELLS} are the most."
        yield notebook.problem("length", what, "join cells, or take out what is not needed.")


def sittings(notebook: Notebook) -> Iterator[Problem]:
    """No sitting takes too long, and the opening says how long each takes."""
    if not notebook.minutes:
        return
    for first, cells in _sittings(notebook):
        taken = estimate(cell.node for cell in cells)
        most = max(MAX_MINUTES, taken.headed + READING_MINUTES)
        if taken.minutes > most:
            what = (
                f"The sitting that begins here takes {taken.minutes:.0f} minutes; {most:.0f} are the most. It has "
                f"{taken.words} words, {taken.lines} lines of code, {taken.predictions} predictions, and headings "
                f"that say {taken.headed:.0f} minutes."
            )
            further = f"notebooks/further/{notebook.name.rpartition('/')[2]}"
            mend = f"begin another sitting, or move what no exercise needs to {further}."
            yield notebook.problem("time", what, mend, first)
    if said(notebook.minutes) not in " ".join(notebook.cells[0].source.split()):
        what = "The opening does not say how long it takes."
        yield notebook.problem("time", what, f"write: {said(notebook.minutes)}", notebook.cells[0])


def something_to_write(notebook: Notebook) -> Iterator[Problem]:
    """In each sitting the learner writes something before long."""
    for first, cells in _sittings(notebook):
        if not any(map(_is_own, cells[:FIRST_OWN_CELL])):
            what = f"The learner writes nothing in the first {FIRST_OWN_CELL} cells of the sitting that begins here."
            mend = 'bring an exercise forward, or head a cell with "Now change this" and say what to change below it.'
            yield notebook.problem("passive", what, mend, first)


def _sittings(notebook: Notebook) -> Iterator[tuple[Cell, list[Cell]]]:
    cells = iter(notebook.cells)
    for part in parts(notebook.node):
        sitting = [next(cells) for _ in part]
        if sitting:
            yield sitting[0], sitting


def _is_own(cell: Cell) -> bool:
    if cell.kind == "markdown":
        return _NOW_CHANGE.match(cell.source) is not None
    return cell.is_answer or "lesson.predict(" in cell.source


RULES = (length, sittings, something_to_write)

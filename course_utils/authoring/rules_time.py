"""Rules about a learner's time: a lesson says how long its sittings are, and none is above an hour (``RULES``)."""

import re
from collections.abc import Iterator

from course_utils.authoring.problems import Cell, Page, Problem

MAX_CELLS = 65
MAX_MINUTES = 60
# An estimate. People read plain English at 238 words a minute (https://doi.org/10.1016/j.jml.2019.104047); this is
# neither plain nor read once. What an exercise takes stands in its heading, and so does the written question's time.
_WORDS_A_MINUTE, _LINES_A_MINUTE, _MINUTES_A_PREDICTION = 160, 24, 1
_OFF_BY = 5  # as far as what a lesson says may be from its estimate
_NO_WORDS = re.compile(r"\]\([^)]*\)|<[^>]*>")
_HEADED = re.compile(r"^#+ .*?(\d+) minutes?$", re.MULTILINE)
_BREAK = re.compile(r"^\*Your second sitting begins here; it takes (\d+) minutes\.", re.MULTILINE)


def minutes(cell: Cell) -> float:
    """How long a learner is at a cell: reading it, predicting, and answering where it heads an exercise."""
    if cell.kind == "markdown":
        headed = sum(int(found) for found in _HEADED.findall(cell.source))
        return headed + len(_NO_WORDS.sub("", cell.source).split()) / _WORDS_A_MINUTE
    if cell.is_answer:
        return 0.0
    lines = sum(bool(line.strip()) for line in cell.source.splitlines())
    return lines / _LINES_A_MINUTE + _MINUTES_A_PREDICTION * cell.source.count("lesson.predict(")


def length(page: Page) -> Iterator[Problem]:
    """A lesson has no more cells than two sittings can hold."""
    if len(page.cells) > MAX_CELLS:
        what = f"The lesson has {len(page.cells)} cells; {MAX_CELLS} are the most for two sittings."
        yield page.problem("length", what, "join cells, or take out what is not needed.")


def sittings(page: Page) -> Iterator[Problem]:
    """Opening, break and catalogue agree on how long each sitting takes, and its cells take about as long."""
    if not page.minutes:
        return
    at = [number for number, cell in enumerate(page.cells) if cell.kind == "markdown" and _BREAK.search(cell.source)]
    starts = [0, *at[:1]]
    parts = [page.cells[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    estimates = [sum(map(minutes, part)) for part in parts]
    first, heard = page.minutes[0], " ".join(page.cells[0].source.split())
    said = f"{first} minutes" if len(parts) == 1 else f"two sittings, of {first} and {page.minutes[-1]} minutes"
    near = len(page.minutes) == len(parts) and all(
        abs(stated - estimate) <= _OFF_BY for stated, estimate in zip(page.minutes, estimates, strict=True)
    )
    if not near:
        found = " and ".join(f"{estimate:.0f}" for estimate in estimates)
        what = f"The catalogue says {page.minutes} minutes; the cells take about {found}."
        yield page.problem("time", what, "mend course_utils/catalogue.py, or begin the second sitting elsewhere.")
    if max(page.minutes) > MAX_MINUTES:
        what = f"A sitting of {max(page.minutes)} minutes; {MAX_MINUTES} are the most."
        yield page.problem("time", what, "begin the second sitting elsewhere, or take out what is not needed.")
    if said not in heard:
        yield page.problem("time", "The opening does not say how long it takes.", f"write: {said}", page.cells[0])
    for cell in (page.cells[number] for number in at):
        if _BREAK.findall(cell.source) != [str(page.minutes[-1])]:
            yield page.problem("time", "The break says another time.", f"write: {page.minutes[-1]} minutes", cell)


RULES = (length, sittings)

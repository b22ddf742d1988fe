"""What follows from the sources, so that nobody writes it: headings, answers, check cells and nbgrader metadata of a
solution notebook (``derived``), a learner's time (``minutes``, ``sittings``) and where a lesson says so
(``with_minutes``), points and minutes in the catalogue (``catalogue``) and in README's table (``readme``).
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from course_utils.authoring import cells
from course_utils.authoring.cells import BEGIN, END
from course_utils.authoring.files import normalised
from course_utils.base import explain
from course_utils.base.files import read_toml
from course_utils.catalogue import LessonInfo, text_files
from course_utils.checks.misconceptions import heading

HEADED = re.compile(r"^### Exercise\b.*$", re.MULTILINE)
WRITTEN = re.compile(r"^### Written question\b", re.MULTILINE)
# What first readers needed: prose and what cells print are read twice, code has to be understood, a change of a cell is
# a prediction, too, and a long contract takes half as much again.
_WORDS_A_MINUTE, _LINES_A_MINUTE, _MINUTES_A_PREDICTION = 110, 6, 2
_LONG_WORDS, _LONG_FACTOR = 90, 1.5
_STEP = 5  # what a lesson says is a multiple of it
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NO_WORDS = re.compile(rf"{_FENCED.pattern}|\]\([^)]*\)|<[^>]*>", _FENCED.flags)
_TIMED = re.compile(r"^#+ .*?(\d+) minutes?\b", re.MULTILINE)
_BREAK = re.compile(r"^(\*Your \w+ sitting begins here; it takes )\d+(?= minutes\.)", re.MULTILINE)
_OPENING = re.compile(r"\b(?:\w+\s+sittings,\s+of\s+[\d,\s]+?and\s+)?\d+\s+minutes\b")
_COUNTS = ("no", "one", "two", "three", "four", "five")


class Entry(NamedTuple):
    """What the text file of an exercise says: its name, what its check is worth, the heading above its contract, and
    the course's own answer as its cell has it."""

    name: str
    points: int
    heading: str
    answer: str


def entries(folder: Path) -> dict[str, Entry]:
    """The exercises of a lesson by name, in its order; none where it has no folder.

    Raises:
        ValueError: a text file has no number, points or minutes, or is no TOML.
    """
    found = {}
    for path in text_files(folder):
        values = read_toml(path)
        answer = values.get("answer", "").strip("\n")
        found[path.stem] = Entry(path.stem, values["points"], heading(path, values), answer)
    return found


def derived(solution: NotebookNode, topic: str, exercises: Mapping[str, Entry]) -> NotebookNode:
    """The solution notebook in the form in which it is kept, with everything in it that nobody has to write.

    An exercise is a Markdown cell with a line ``### Exercise`` and the exercise's name in it, and below it the answer's
    cell. The line becomes the heading; the check follows the answer, with its outputs where it stood there already.

    Args:
        solution: left as it is.
        topic: the lesson's name.
        exercises: as ``entries`` gives them.

    Raises:
        ValueError: an exercise has no such cells, they stand in another order than their numbers say, or a heading
            names no exercise.
    """
    notebook = normalised(solution)
    for cell in notebook.cells:
        cell.metadata.pop("nbgrader", None)
    for cell in [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()][:1]:
        cells.graded(cell, f"{topic}-setup", locked=True)
    for question, cell in pairwise(notebook.cells):
        if question.cell_type == cell.cell_type == "markdown" and WRITTEN.search(question.source):
            cells.graded(cell, f"{topic}-{cell.id}", grade=True, solution=True, points=cells.WRITTEN_POINTS)
    found = []
    for contract in list(notebook.cells):
        if contract.cell_type == "markdown" and (line := HEADED.search(contract.source)):
            entry = _named(line.group(), exercises)
            contract.id, contract.source = f"{entry.name}-text", HEADED.sub(f"### {entry.heading}", contract.source)
            _answered(notebook, notebook.cells.index(contract) + 1, topic, entry)
            found.append(entry.name)
    if found != list(exercises):
        did, order = f"The notebook's exercises are {', '.join(found) or 'none'}.", ", ".join(exercises) or "none"
        expected = f"{order}, one cell with a line ### Exercise for each, by the numbers in {topic}'s text files."
        raise ValueError(explain(did, expected, try_this="move the cells, or mend the numbers."))
    return notebook


def _named(line: str, exercises: Mapping[str, Entry]) -> Entry:
    for word in re.findall(r"\w+", line):
        if word in exercises:
            return exercises[word]
    there = ", ".join(exercises) or "there is none"
    raise ValueError(explain(f"A cell is headed {line!r}.", f"the name of an exercise that has a text file: {there}."))


def _answered(notebook: NotebookNode, at: int, topic: str, entry: Entry) -> None:
    """Marks the answer's cell, and puts the check after it where it is missing."""
    answer, check = [*notebook.cells[at : at + 2], None, None][:2]
    if answer is None or answer.cell_type != "code" or BEGIN not in answer.source:
        did = f"No answer stands below the heading of {entry.name}."
        raise ValueError(explain(did, f"a code cell in which {BEGIN} and {END} enclose the solution."))
    answer.id, answer.source = entry.name, entry.answer or answer.source
    cells.graded(answer, f"{topic}-{entry.name}", solution=True)
    made = cells.check(topic, entry.name, entry.points)
    if check is None or check.cell_type != "code" or not check.source.startswith("lesson.check("):
        notebook.cells.insert(at + 1, made)
    else:
        check.id, check.source = made.id, made.source
        check.metadata["nbgrader"] = made.metadata["nbgrader"]


def minutes(cells: Iterable[NotebookNode]) -> float:
    """How long a learner is at these cells: reading, predicting, changing, and answering the exercises they head."""
    taken = headed(cells := list(cells))
    for cell in cells:
        graded, code, words = cell.metadata.get("nbgrader", {}), "", ""
        if cell.cell_type == "markdown" and not graded.get("solution"):  # the model answer, which learners lack
            code, words = "".join(_FENCED.findall(cell.source)), _NO_WORDS.sub("", cell.source)
        elif cell.cell_type == "code" and not graded:
            printed = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
            code, words = cell.source, " ".join(printed)
        asked = cell.source.count("lesson.predict(") + cell.source.count("**Now change this.**")
        lines = sum(bool(line.strip()) for line in code.splitlines())
        taken += len(words.split()) / _WORDS_A_MINUTE + lines / _LINES_A_MINUTE + asked * _MINUTES_A_PREDICTION
    return taken


def headed(cells: Iterable[NotebookNode]) -> float:
    """The minutes that the headings of exercises and of the written question say, more below a long contract."""
    taken = 0.0
    for cell in cells:
        for found in _TIMED.finditer(cell.source) if cell.cell_type == "markdown" else ():
            long = len(cell.source[found.end() :].split()) > _LONG_WORDS
            taken += int(found[1]) * (_LONG_FACTOR if long else 1)
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
    texts, later = [cell for cell in notebook.cells if cell.cell_type == "markdown"], iter(minutes[1:])
    for cell in texts[:1]:
        cell.source = _OPENING.sub(said(minutes), cell.source, count=1)
    for cell in texts[1:]:
        cell.source = _BREAK.sub(lambda found: f"{found[1]}{next(later)}", cell.source)
    return notebook


def catalogue(source: str, lessons: Mapping[str, LessonInfo]) -> str:
    """The source of ``catalogue.py``, with the minutes and points of these lessons."""

    def told(found: re.Match[str]) -> str:
        lesson = lessons.get(found[2])
        return f"{found[1]}{lesson.minutes!r}, {lesson.points}" if lesson else found[0]

    return re.sub(r'(LessonInfo\(\s*\d+, "(\w+)",.*?)\([\d, ]+\), \d+', told, source, flags=re.DOTALL)


def readme(text: str, lessons: Iterable[tuple[LessonInfo, int]]) -> str:
    """README with its table of lessons: all of them in order, each with how many exercises it has."""
    rows = [
        f"| {lesson.number:02d} | [{lesson.title}](notebooks/{lesson.notebook}.ipynb) | {lesson.question} | "
        f"{' + '.join(map(str, lesson.minutes))} | {exercises} | {lesson.points} |\n"
        for lesson, exercises in lessons
    ]
    return re.sub(r"(?:^\| \d\d \|.*\n)+", lambda _: "".join(rows), text, count=1, flags=re.MULTILINE)

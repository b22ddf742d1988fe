"""What follows from the exercises' text files, so that nobody writes it: headings, answers, check cells and nbgrader
metadata of a solution notebook (``derived``), a lesson's points and minutes in the catalogue (``catalogue``) and in
README's table (``readme``).
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from nbformat import NotebookNode

from course_utils.authoring import cells
from course_utils.authoring.cells import BEGIN, END
from course_utils.authoring.files import normalised
from course_utils.base.errors import explain
from course_utils.base.files import read_toml
from course_utils.catalogue import LessonInfo, text_files
from course_utils.checks.misconceptions import heading

HEADED = re.compile(r"^### Exercise\b.*$", re.MULTILINE)
WRITTEN = re.compile(r"^### Written question\b", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """What the text file of an exercise says of its place in the lesson.

    Attributes:
        name: the exercise's name.
        points: what its check is worth.
        heading: as it stands above its contract.
        answer: the course's own answer, as its cell has it.
    """

    name: str
    points: int
    heading: str
    answer: str


def entries(folder: Path) -> dict[str, Entry]:
    """The exercises of a lesson by name, in its order; none where it has no folder.

    Raises:
        ValueError: a text file has no number, points or minutes, or is no TOML.
    """
    found = [(path, read_toml(path)) for path in text_files(folder)]
    return {
        path.stem: Entry(path.stem, values["points"], heading(path, values), values.get("answer", "").strip("\n"))
        for path, values in found
    }


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
        raise ValueError(
            explain(
                f"The notebook's exercises are {', '.join(found) or 'none'}.",
                f"{', '.join(exercises) or 'none'}, one cell with a line ### Exercise for each, by the numbers in "
                f"course_utils/lessons/{topic}.",
                try_this="move the cells, or mend the numbers.",
            )
        )
    return notebook


def _named(line: str, exercises: Mapping[str, Entry]) -> Entry:
    for word in re.findall(r"\w+", line):
        if word in exercises:
            return exercises[word]
    raise ValueError(
        explain(
            f"A cell is headed {line!r}.",
            f"the name of an exercise that has a text file: {', '.join(exercises) or 'there is none'}.",
        )
    )


def _answered(notebook: NotebookNode, at: int, topic: str, entry: Entry) -> None:
    """Marks the answer's cell, and puts the check after it where it is missing."""
    answer, check = [*notebook.cells[at : at + 2], None, None][:2]
    if answer is None or answer.cell_type != "code" or BEGIN not in answer.source:
        raise ValueError(
            explain(
                f"No answer stands below the heading of {entry.name}.",
                f"a code cell in which {BEGIN} and {END} enclose the solution.",
            )
        )
    answer.id, answer.source = entry.name, entry.answer or answer.source
    cells.graded(answer, f"{topic}-{entry.name}", solution=True)
    made = cells.check(topic, entry.name, entry.points)
    if check is None or check.cell_type != "code" or not check.source.startswith("lesson.check("):
        notebook.cells.insert(at + 1, made)
    else:
        check.id, check.source = made.id, made.source
        check.metadata["nbgrader"] = made.metadata["nbgrader"]


def catalogue(source: str, lessons: Mapping[str, LessonInfo]) -> str:
    """The source of ``catalogue.py``, with the minutes and points of these lessons."""
    lines = source.splitlines(keepends=True)
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(ast.Name("LessonInfo"), [_, ast.Constant(str(name)), _, _, minutes, points]) if (
                name in lessons
            ):
                for node, value in ((points, lessons[name].points), (minutes, lessons[name].minutes)):
                    line = lines[node.lineno - 1].encode()
                    new = line[: node.col_offset] + repr(value).encode() + line[node.end_col_offset :]
                    lines[node.lineno - 1] = new.decode()
    return "".join(lines)


def readme(text: str, lessons: Iterable[tuple[LessonInfo, int]]) -> str:
    """README with its table of lessons.

    Args:
        text: what it says now.
        lessons: all of them in order, each with how many exercises it has.
    """
    rows = [
        f"| {lesson.number:02d} | [{lesson.title}](notebooks/{lesson.notebook}.ipynb) | {lesson.question} | "
        f"{' + '.join(map(str, lesson.minutes))} | {exercises} | {lesson.points} |\n"
        for lesson, exercises in lessons
    ]
    return re.sub(r"(?:^\| \d\d \|.*\n)+", lambda _: "".join(rows), text, count=1, flags=re.MULTILINE)

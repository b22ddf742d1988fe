"""What a lesson keeps to and nothing else would tell of, no run, no nbgrader, no nbformat: all notebooks of a course
with ``lint_course``, what learners get with ``lint_learner``.

A rule is a function that yields the cells that break it, each with what is wrong and how to mend it.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from nbformat import NotebookNode

from course_utils.authoring.cells import BEGIN, END, WRITTEN_POINTS, solution_lines
from course_utils.authoring.derive import headed, minutes, parts, said, sittings
from course_utils.authoring.files import Course, read, topic_of
from course_utils.authoring.problems import Cell, Notebook, Problem
from course_utils.authoring.problems import report as report
from course_utils.checks.misconceptions import thoughts

MAX_CELLS, MAX_CODE_LINES = 65, 25
MAX_CODE_COLUMNS = 106  # what JupyterLab shows of a line in a window 1280 pixels wide
MAX_MINUTES = 52  # 50, as it is printed
READING_MINUTES = 20  # beside an exercise that fills a sitting by itself, as the clinic's two do
MIN_TELLTALE = 8  # shorter lines of a solution, such as "else:", give nothing away
HIDING_TAGS = {"nbval-ignore-output", "nbval-raises-exception", "nbval-skip", "raises-exception"}
HIDING_COMMENT = re.compile(r"^\s*#+\s*(?:NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)
MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
LINK = re.compile(r"\[[^\]]*\]\(([^)]*)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def lint_course(course: Course, names: Sequence[str] = ()) -> list[Problem]:
    """Everything that is wrong with a course's notebooks: solutions, then learners', then those that go further.

    Args:
        course: the course.
        names: only these notebooks (``03_detach``); all where it is empty.

    Raises:
        ValueError: there is no notebook of such a name, or a file is no notebook.
    """
    solutions, problems = course.solution_paths(names), list[Problem]()
    for path in solutions:
        asked = thoughts(course.exercises(topic_of(path))).keys()
        notebook = Notebook(course.name(path), topic_of(path), read(path), course.learners, asked)
        problems += [problem for rule in (*RULES, time) for problem in rule(notebook)]
    for path in solutions:
        learner = course.learners / path.name
        if learner.exists():
            problems += lint_learner(learner, path, name=course.name(learner))
    for path in course.further_paths(names):
        notebook = Notebook(course.name(path), topic_of(path), read(path), course.further)
        problems += [problem for rule in RULES for problem in rule(notebook)]
    return problems


def lint_learner(path: Path, solution: Path, *, name: str) -> list[Problem]:
    """What a notebook shows to learners and may not: lines that only the solution has, and markers.

    Args:
        path: the learner notebook.
        solution: the solution notebook it was made from.
        name: what messages call it.

    Raises:
        ValueError: a file is no notebook.
    """
    notebook, solved, others = Notebook(name, topic_of(path), read(path)), set[str](), set[str]()
    for node in read(solution).cells:
        inside = solution_lines(node)
        solved.update(line.strip() for line in inside)
        others.update(line.strip() for line in node.source.splitlines() if line not in inside)
    secrets, problems = {line for line in solved - others if len(line) >= MIN_TELLTALE}, []
    for cell in notebook.cells:
        shown = secrets.intersection(line.strip() for line in cell.source.splitlines())
        if shown or MARKERS.search(cell.source):
            what = f"The learner notebook shows a line of the solution: {min(shown, default=cell.first_line)}"
            mend = "let it stand between the markers alone, or say it in other words."
            problems.append(notebook.problem("solution-shown", what, mend, cell))
    return problems


def unique_ids(notebook: Notebook) -> Iterator[Problem]:
    """Cell ids and grade ids are there and are unique."""
    found = Counter(cell.id for cell in notebook.cells)
    graded = Counter(cell.grade_id for cell in notebook.cells if cell.grade_id)
    for cell in notebook.cells:
        if not cell.id or found[cell.id] > 1:
            what = f"{found[cell.id]} cells have the id {cell.id}." if cell.id else "The cell has no id."
            yield notebook.problem("cell-id", what, "give this cell an id of its own: letters, digits, - and _.", cell)
        if graded[cell.grade_id] > 1:
            what = f"{graded[cell.grade_id]} cells have the grade id {cell.grade_id}; nbgrader stops there."
            yield notebook.problem("grade-id", what, "give this cell a grade id of its own.", cell)


def solution_regions(notebook: Notebook) -> Iterator[Problem]:
    """An answer has a solution region; asked of sources in which nothing is made."""
    for cell in notebook.code:
        if cell.is_answer and BEGIN not in cell.source:
            what = "The answer cell has no solution region, so the learner's copy would lose its signature too."
            yield notebook.problem("solution-region", what, f"put {BEGIN} and {END} around the solution.", cell)


def executed(notebook: Notebook) -> Iterator[Problem]:
    """Every code cell was run, in order, in one fresh kernel: nbval compares nothing where a count is missing."""
    for count, cell in enumerate(notebook.code, start=1):
        if cell.node.get("execution_count") != count:
            what = f"The cell's execution count is not {count}, so that nbval might compare it with nothing."
            yield notebook.problem("not-executed", what, f"python -m course_utils.authoring run {notebook.topic}", cell)


def compared(notebook: Notebook) -> Iterator[Problem]:
    """Nothing on a graded cell keeps nbval from seeing that a solution stopped scoring."""
    for cell in notebook.code:
        tags = HIDING_TAGS.intersection(cell.node.metadata.get("tags", []))
        if (cell.is_answer or cell.is_check) and (tags or HIDING_COMMENT.search(cell.source)):
            what = "nbval is told not to compare this graded cell, or to let it raise."
            yield notebook.problem("hidden-from-nbval", what, "take the tag or comment off.", cell)


def short(notebook: Notebook) -> Iterator[Problem]:
    """A reader can hold a cell and sees it whole; a lesson has no more cells than its sittings can hold."""
    if len(notebook.cells) > MAX_CELLS:
        what = f"The lesson has {len(notebook.cells)} cells; {MAX_CELLS} are the most."
        yield notebook.problem("length", what, "join cells, or take out what is not needed.")
    for cell in notebook.code:
        lines = [line for line in cell.source.splitlines() if line.strip() and line.strip() not in (BEGIN, END)]
        if len(lines) > MAX_CODE_LINES:
            what = f"The cell has {len(lines)} lines of code; {MAX_CODE_LINES} is the most a reader can hold."
            yield notebook.problem("length", what, "split the cell, or move the helper into course_utils.", cell)
        for line in lines:
            if len(line) > MAX_CODE_COLUMNS:
                what = f"A line has {len(line)} characters; a laptop's screen shows {MAX_CODE_COLUMNS}: {line.strip()}"
                yield notebook.problem("width", what, "break the line.", cell)


def figures(notebook: Notebook) -> Iterator[Problem]:
    """Every figure has an alternative text for readers who do not see it."""
    for cell in notebook.code:
        if any("image/png" in output.get("data", {}) and not _has_text(output) for output in cell.outputs):
            what = "A figure has no alternative text, so a screen reader can only say that there is one."
            yield notebook.problem("alternative-text", what, "draw it with course_utils.draw, which writes one.", cell)


def _has_text(figure: NotebookNode) -> bool:
    stored = figure.get("metadata", {}).get("image/png", {}).get("alt", "")
    return bool(stored.strip() or re.search(r"<img\b[^>]*\balt=[\"']\s*[^\s\"']", figure.data.get("text/html", "")))


def links(notebook: Notebook) -> Iterator[Problem]:
    """A link leads to a page on the web or to a notebook that is there; an issue's number is one; a lesson leads to
    what goes on from it."""
    texts = [(cell, CODE.sub("", cell.source)) for cell in notebook.cells if cell.kind == "markdown"]
    for cell, text in texts:
        for target in LINK.findall(text):
            if not (target.startswith("https://") or (notebook.folder / target.partition("#")[0]).is_file()):
                what = f"The link to {target!r} leads to no notebook of the course, and is not an https:// address."
                yield notebook.problem("link", what, "name a file that is there, or link to the web.", cell)
        for number in re.findall(r"(?<![\w/#\[])#\d{2,}\b", LINK.sub("", text)):
            yield notebook.problem("link", f"{number} is not a link.", f"write [{number}](https://...).", cell)
    further = f"further/{notebook.name.rpartition('/')[2]}"
    if (notebook.folder / further).is_file() and not any(f"]({further}" in text for _, text in texts):
        mend = f"write [Going further]({further}) where a passage has left."
        yield notebook.problem("link", f"Nothing leads to {further}.", mend)


def predictions(notebook: Notebook) -> Iterator[Problem]:
    """Every prediction has a word for who guesses wrong, and every such word belongs to a prediction."""
    place, questions = f"course_utils/lessons/{notebook.topic}/predictions.toml", set()
    for cell in notebook.code:
        for question in _asked(cell):
            questions.add(question)
            if question not in notebook.questions:
                what = f"Who guesses {question or '(no plain text)'!r} wrong is told nothing."
                yield notebook.problem("prediction", what, f"name the thoughts behind wrong guesses in {place}.", cell)
    for question in sorted(notebook.questions - questions):
        mend = f"mend the question in {place}, or drop it."
        yield notebook.problem("prediction", f"Nothing asks {question!r}.", mend)


def _asked(cell: Cell) -> Iterator[str]:
    """The questions, written out or under a name that the cell gives them."""
    try:
        nodes = list(ast.walk(ast.parse(cell.plain_code)))
    except SyntaxError:  # nobody can run it either
        return
    named = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lesson.predict" and node.args:
            first = named.get(ast.unparse(node.args[0]), node.args[0])
            yield first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def written(notebook: Notebook) -> Iterator[Problem]:
    """The written question says who marks it and how to see a model answer, which has a marking scheme."""
    points = f"Written question · {WRITTEN_POINTS} points by hand"
    for above, cell in pairwise(notebook.cells):
        for part, where in ((points, above), ('`lesson.solution("written")`', above), ("**Marking scheme**", cell)):
            if cell.is_written and part not in where.source:
                yield notebook.problem("written", f"The written question lacks: {part}", "add it.", where)


def time(notebook: Notebook) -> Iterator[Problem]:
    """No sitting takes too long, and the opening says how long each takes."""
    cells = iter(notebook.cells)
    for part in parts(notebook.node):
        first, *_ = [next(cells) for _ in part]
        taken, most = minutes(part), max(MAX_MINUTES, headed(part) + READING_MINUTES)
        if taken > most:
            what = f"The sitting that begins here takes {taken:.0f} minutes; {most:.0f} are the most."
            mend = "begin another sitting, or move what no exercise needs to notebooks/further/."
            yield notebook.problem("time", what, mend, first)
    opening, told = notebook.cells[0], said(sittings(notebook.node))
    if told not in " ".join(opening.source.split()):
        yield notebook.problem("time", "The opening does not say how long it takes.", f"write: {told}", opening)


WITHIN = 6  # cells before and after: a section and its neighbours
# A number of one digit is found nearly anywhere by chance.
_NUMBER = re.compile(r"(?<![\w.#/-])(?=\d*[.,]?\d)\d+(?:,\d{3})*(?:\.\d+)?(?![\w⁰-⁹⁻]|\.\d)")
_SHOWN = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_NOT_MEASURED = re.compile(
    r"\A\W*Now change this\b(?s:.*)|^### (?:Exercise|Written)(?s:.*)"  # what is seen after the change; contracts
    r"|```(?s:.*?)```|`[^`\n]*`|\[[^\]]*\]\([^)]*\)|^#.*$"  # code, links, headings
    r"|sittings,\s+of\s+[\d,\s]+and\s+\d+|\b\d+\s+minutes\b|\blines?\s+\d+(?:(?:,\s+|\s+and\s+)\d+)*"
    r"|\b(?:[Ee]xercise|PyTorch)\s+\d+\.\d+|\b0\d\b|\b(?:19|20)\d\d\b"
    r"|(?<=[+*·=])\s*\d+\s*(?=[+*·=])|\d+(?=\s*[+*·]\s*\d)",  # terms of a sum
    re.MULTILINE,
)


def numbers(notebook: Notebook) -> Iterator[Problem]:
    """A number of two digits or more is in the code or the output of a cell near it, as exact as it is told, or in an
    exercise's heading."""
    headings = set(re.findall(r"\n### Exercise (\d+\.\d+)", "".join(f"\n{cell.source}" for cell in notebook.cells)))
    shown = [
        _SHOWN.findall((cell.source + json.dumps(cell.outputs)).replace(",", "")) if cell.kind == "code" else []
        for cell in notebook.cells
    ]
    for at, cell in enumerate(notebook.cells):
        if cell.kind != "markdown" or cell.is_written:
            continue
        told = [number.replace(",", "") for number in _NUMBER.findall(_NOT_MEASURED.sub(" ", cell.source))]
        near = headings.union(*shown[max(0, at - WITHIN) : at + WITHIN + 1])
        for number in dict.fromkeys(told):
            if len(number.replace(".", "")) > 1 and not any(_rounds_to(other, number) for other in near):
                what = f"No cell near it shows {number}."
                yield notebook.problem("number", what, "print it, mend it, or say it without a number.", cell)


def _rounds_to(shown: str, told: str) -> bool:
    digits = len(told.partition(".")[2])
    return shown == told or ("." in shown and abs(float(shown) - float(told)) <= 0.5 * 10**-digits)


Rule = Callable[[Notebook], Iterator[Problem]]
RULES: tuple[Rule, ...] = (unique_ids, executed, compared, short, figures, links, predictions, written, numbers)

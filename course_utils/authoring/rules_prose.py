"""Rules about what a learner reads: links, predictions, the written question, headings (``RULES``)."""

import ast
import re
from collections.abc import Iterator

from course_utils.authoring.cells import CHECK_SUFFIX
from course_utils.authoring.problems import Cell, Page, Problem
from course_utils.catalogue import LESSONS

SCHEME = "**Marking scheme**"
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)]*)\)")
_URL = re.compile(r"https://[\w.-]+\.[a-z]+(/\S*)?")
_ISSUE = re.compile(r"(?<![\w/#\[])#\d{2,}\b")


def links(page: Page) -> Iterator[Problem]:
    """A link leads to a page on the web or to a lesson of the course; an issue's number is one."""
    notebooks = {f"{lesson.notebook}.ipynb" for lesson in LESSONS}
    for cell in page.cells:
        if cell.kind != "markdown":
            continue
        text = _CODE.sub("", cell.source)
        for target in _LINK.findall(text):
            if not _URL.fullmatch(target) and target.partition("#")[0] not in notebooks:
                what = f"The link to {target!r} leads to no lesson, and is no https:// address."
                yield page.problem("link", what, "link to NN_topic.ipynb beside this notebook, or to the web.", cell)
        for number in _ISSUE.findall(_LINK.sub("", text)):
            yield page.problem("link", f"{number} is no link.", f"write [{number}](https://...).", cell)


def last_words(page: Page) -> Iterator[Problem]:
    """A lesson ends with what to read on, as links, and with the next lesson."""
    names = [lesson.name for lesson in LESSONS]
    if page.topic not in names or not page.cells:
        return
    targets = _LINK.findall(page.cells[-1].source)
    following = LESSONS[names.index(page.topic) + 1 :]
    if not any(_URL.fullmatch(target) for target in targets) and LESSONS[names.index(page.topic)].points:
        yield page.problem("read-on", "The last cell links to nothing.", "link to the documentation.", page.cells[-1])
    if following and f"{following[0].notebook}.ipynb" not in targets:
        mend = f"end with Next: [{following[0].number:02d} · {following[0].title}]({following[0].notebook}.ipynb)."
        yield page.problem("read-on", "The last cell does not lead to the next lesson.", mend, page.cells[-1])


def predictions(page: Page) -> Iterator[Problem]:
    """Every prediction has a word for who guesses wrong, and every such word belongs to a prediction."""
    place, asked = f"course_utils/lessons/{page.topic}/predictions.toml", set()
    for cell in page.code:
        for question in _asked(cell):
            asked.add(question)
            if question not in page.questions:
                what = f"Who guesses {question or '(no plain text)'!r} wrong is told nothing."
                yield page.problem("prediction", what, f"name the thoughts behind wrong guesses in {place}.", cell)
    for question in sorted(page.questions - asked):
        yield page.problem("prediction", f"Nothing asks {question!r}.", f"mend the question in {place}, or drop it.")


def _asked(cell: Cell) -> Iterator[str]:
    """The questions, written out or under a name that the cell gives them."""
    nodes = list(ast.walk(cell.tree or ast.Module([], [])))
    named = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lesson.predict" and node.args:
            first = named.get(ast.unparse(node.args[0]), node.args[0])
            yield first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def written_question(page: Page) -> Iterator[Problem]:
    """The written question says who marks it and how to see a model answer, which has a marking scheme."""
    for above, cell in zip(page.cells, page.cells[1:], strict=False):
        if not cell.is_written:
            continue
        wanted = f"Written question · {cell.points:g} points by hand"
        for part, where in ((wanted, above), ('`lesson.solution("written")`', above), (SCHEME, cell)):
            if part not in where.source:
                yield page.problem("written", f"The written question lacks: {part}", "add it.", where)


def exercise_headings(page: Page) -> Iterator[Problem]:
    """Above each exercise stands its heading: its number, counted from 1, its name, and the points of its check."""
    lesson = next((lesson.number for lesson in LESSONS if lesson.name == page.topic), None)
    checks = [cell for cell in page.cells if cell.is_check] if lesson is not None else []
    for number, check in enumerate(checks, start=1):
        exercise = check.grade_id.removeprefix(f"{page.topic}-").removesuffix(CHECK_SUFFIX)
        costs = f"{check.points:g} point{'' if check.points == 1 else 's'}, " if check.points else ""
        wanted = f"### Exercise {lesson}.{number} · {exercise} · {costs}"
        text = [cell for cell in page.cells[: check.number] if cell.kind == "markdown"][-1:]
        found = [line for cell in text for line in cell.source.splitlines() if line.startswith("### Exercise")]
        if not any(line.startswith(wanted) for line in found):
            what = f"The heading of {exercise} is {(found or ['missing'])[-1]!r}."
            mend = f"begin it with {wanted!r}, or mend the points in {exercise}.toml and in the check cell's metadata."
            yield page.problem("heading", what, mend, *text)


RULES = (links, last_words, predictions, written_question, exercise_headings)

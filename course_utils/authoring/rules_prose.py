"""Rules about what a learner reads: links, predictions, the written question (``RULES``)."""

import ast
import re
from collections.abc import Iterator

from course_utils.authoring.problems import Cell, Notebook, Problem
from course_utils.catalogue import LESSONS

SCHEME = "**Marking scheme**"
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)]*)\)")
_URL = re.compile(r"https://[\w.-]+\.[a-z]+(/\S*)?")
_ISSUE = re.compile(r"(?<![\w/#\[])#\d{2,}\b")


def links(notebook: Notebook) -> Iterator[Problem]:
    """A link leads to a page on the web or to a notebook of the course; an issue's number is one."""
    for cell in notebook.cells:
        if cell.kind != "markdown":
            continue
        text = _CODE.sub("", cell.source)
        for target in _LINK.findall(text):
            if not _URL.fullmatch(target) and target.partition("#")[0] not in notebook.beside:
                what = f"The link to {target!r} leads to no notebook of the course, and is not an https:// address."
                lesson = next((name for name in sorted(notebook.beside) if "further" not in name), "NN_topic.ipynb")
                yield notebook.problem("link", what, f"write it like {lesson}, or link to the web.", cell)
        for number in _ISSUE.findall(_LINK.sub("", text)):
            yield notebook.problem("link", f"{number} is not a link.", f"write [{number}](https://...).", cell)


def last_words(notebook: Notebook) -> Iterator[Problem]:
    """A lesson ends with what to read on, as links, and with the next lesson."""
    names = [lesson.name for lesson in LESSONS]
    if notebook.topic not in names or not notebook.cells:
        return
    targets = _LINK.findall(notebook.cells[-1].source)
    following = LESSONS[names.index(notebook.topic) + 1 :]
    if not any(_URL.fullmatch(target) for target in targets) and LESSONS[names.index(notebook.topic)].points:
        yield notebook.problem(
            "read-on", "The last cell links to nothing.", "link to the documentation.", notebook.cells[-1]
        )
    if following and f"{following[0].notebook}.ipynb" not in targets:
        mend = f"end with Next: [{following[0].number:02d} · {following[0].title}]({following[0].notebook}.ipynb)."
        yield notebook.problem("read-on", "The last cell does not lead to the next lesson.", mend, notebook.cells[-1])


def predictions(notebook: Notebook) -> Iterator[Problem]:
    """Every prediction has a word for who guesses wrong, and every such word belongs to a prediction."""
    place, asked = f"course_utils/lessons/{notebook.topic}/predictions.toml", set()
    for cell in notebook.code:
        for question in _asked(cell):
            asked.add(question)
            if question not in notebook.questions:
                what = f"Who guesses {question or '(no plain text)'!r} wrong is told nothing."
                yield notebook.problem("prediction", what, f"name the thoughts behind wrong guesses in {place}.", cell)
    for question in sorted(notebook.questions - asked):
        yield notebook.problem(
            "prediction", f"Nothing asks {question!r}.", f"mend the question in {place}, or drop it."
        )


def _asked(cell: Cell) -> Iterator[str]:
    """The questions, written out or under a name that the cell gives them."""
    nodes = list(ast.walk(cell.tree or ast.Module([], [])))
    named = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lesson.predict" and node.args:
            first = named.get(ast.unparse(node.args[0]), node.args[0])
            yield first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def written_question(notebook: Notebook) -> Iterator[Problem]:
    """The written question says who marks it and how to see a model answer, which has a marking scheme."""
    for above, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
        if not cell.is_written:
            continue
        wanted = f"Written question · {cell.points:g} points by hand"
        for part, where in ((wanted, above), ('`lesson.solution("written")`', above), (SCHEME, cell)):
            if part not in where.source:
                yield notebook.problem("written", f"The written question lacks: {part}", "add it.", where)


RULES = (links, last_words, predictions, written_question)

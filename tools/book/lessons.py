"""A lesson's page: the learner's notebook with the outputs of the solved one, guesses and hints folded (``page``), and
the page of what goes on from it (``further``).

What the learner has to find out stays out: the solved cells, what checks say to them, and the model answers.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from docutils.nodes import make_id
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_utils.authoring.cells import CHECK_SUFFIX
from course_utils.authoring.files import Course, read
from course_utils.authoring.problems import plain_code
from course_utils.base import explain
from course_utils.base.markup import Html, element, paragraph, prose
from course_utils.catalogue import LessonInfo
from course_utils.checks import misconceptions
from course_utils.checks.misconceptions import OTHER, thoughts
from course_utils.why.pages import page_for
from tools.book.mistakes import escaped

LINK = re.compile(r'href="((?:\.\./)?\w+)\.ipynb(#?)([^"]*)"')
PERSONAL = ("lesson.scorecard()", "progress()")
YOURS = "*What this cell shows is your own. Run it in JupyterLab.*"
OPEN_IT = """\
```{{admonition}} In JupyterLab
:class: tip
Here you can read the lesson. To work through it, with predictions that are compared and answers that are checked, run
`make lab` in a checkout of the course and open `my_notebooks/{notebook}.ipynb`.
```"""


def page(course: Course, lesson: LessonInfo, answers: Mapping[str, str]) -> NotebookNode:
    """The notebook that becomes the lesson's page.

    Args:
        course: where the notebooks lie.
        lesson: which.
        answers: to each question of the lesson's predictions what PyTorch says, in short form.

    Raises:
        ValueError: a question has no answer there.
    """
    solved = {cell.id: cell for cell in read(course.solutions / f"{lesson.notebook}.ipynb").cells}
    notebook = read(course.learners / f"{lesson.notebook}.ipynb")
    folder = misconceptions.LESSONS / lesson.name
    said = thoughts(folder)
    exercises = {path.stem for path in folder.glob("*.toml")}
    cells = []
    for cell in notebook.cells:
        graded = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "markdown" and graded.get("solution"):
            continue  # the place for the written answer
        cells.append(cell)
        if cell.cell_type == "markdown" or graded.get("solution"):
            continue
        if graded.get("grade"):
            exercise = cell.id.removesuffix(CHECK_SUFFIX)
            cells.append(new_markdown_cell(hints(folder / f"{exercise}.toml")))
        elif is_personal(cell.source, exercises):
            cells.append(new_markdown_cell(YOURS))
        else:
            question, asking = asked(solved[cell.id])
            _show(cell, [output for output in solved[cell.id].outputs if output is not asking])
            if links := list(in_the_index(cell.outputs)):
                cells.append(new_markdown_cell(f"*In the index of errors:* {' · '.join(links)}"))
            if question and question not in answers:
                what = f"No answer is stored for the prediction {question!r} of {lesson.notebook}."
                run = "python -m tools.book answers stores them all."
                raise ValueError(explain(what, "what PyTorch says to each of them.", try_this=run))
            if question:
                cells.append(new_markdown_cell(guess_first(question, answers[question], said[question])))
    cells.insert(1, new_markdown_cell(OPEN_IT.format(notebook=lesson.notebook)))
    notebook.cells = cells
    return notebook


def further(path: Path) -> NotebookNode:
    """The page of a notebook that goes on from a lesson: all of it, as it is stored."""
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            _show(cell, cell.outputs)
    return notebook


def is_personal(source: str, exercises: Collection[str]) -> bool:
    """Whether a cell shows what is the learner's own: points, where a file lies, or what an answer of theirs does."""
    nodes = ast.walk(ast.parse(plain_code(source)))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return source.endswith(PERSONAL) or not used.isdisjoint(exercises)


def in_the_index(outputs: list[NotebookNode]) -> Iterator[str]:
    """A link, in Markdown, to the page of each error and warning that a cell shows as ``RuntimeError: its message``."""
    lines = "".join(output.text for output in outputs if output.output_type == "stream").splitlines()
    raised = (line.partition(": ") for line in lines)
    found = (error for kind, _, said in raised if (error := page_for(said)) and error.kind == kind)
    for error in dict.fromkeys(found):
        yield f"[{escaped(error.title)}](../errors/{error.key}.md)"


def _show(cell: NotebookNode, outputs: list[NotebookNode]) -> None:
    cell.outputs = [_at_home_here(output) for output in outputs]
    # MyST-NB takes an image's alternative text from its cell, and not from the output, where it is stored.
    alts = [output.metadata["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]
    if alts:
        cell.metadata["mystnb"] = {"image": {"alt": " ".join(alts)}}


def _at_home_here(output: NotebookNode) -> NotebookNode:
    # A card's heading is made to stand below an exercise's: on a page, none may be two steps below the one before it.
    # Its links lead to notebooks, with the places that JupyterLab knows: here they are pages, with Sphinx's places.
    data = output.get("data", {})
    if "text/html" in data:
        card = data["text/html"].replace("<h4 ", "<h3 ").replace("</h4>", "</h3>")
        data["text/html"] = LINK.sub(lambda link: f'href="{link[1]}.html{link[2]}{make_id(unquote(link[3]))}"', card)
    return output


def asked(cell: NotebookNode) -> tuple[str, NotebookNode | None]:
    """The question that a solved notebook's cell asks for a prediction of, and the output that asks it; ("", None)
    for a cell that asks none."""
    for output in cell.outputs:
        question, is_asked, _ = output.get("data", {}).get("text/plain", "").partition("\n  Your guess first:")
        if is_asked:
            return " ".join(question.split()), output
    return "", None


def guess_first(question: str, answer: str, said: Mapping[str, str]) -> Html:
    """A prediction, folded: what PyTorch says, and which thoughts lead to other guesses."""
    guesses: dict[str, list[str]] = {}  # one thought may lead to several
    for guess, text in said.items():
        if guess != OTHER:
            guesses.setdefault(text, []).append(element("code", guess))
    rows = [
        element("li", "If you said ", Html(" or ".join(said_so)), ": ", prose(text))
        for text, said_so in guesses.items()
    ]
    found = element("p", "PyTorch says: ", element("code", answer))
    head = Html(element("strong", "Your guess first: ") + prose(question))
    return fold(head, found, *[element("ul", *rows)] * bool(rows))


def hints(path: Path) -> Html:
    """An exercise's hints, folded one by one."""
    texts = misconceptions.read(path)["hints"]
    return Html("\n".join(fold(f"Hint {i} of {len(texts)}", paragraph(text)) for i, text in enumerate(texts, start=1)))


def fold(head: str, *children: Html) -> Html:
    """What a reader opens."""
    return element("details", element("summary", head), *children)

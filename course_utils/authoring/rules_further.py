"""Rules about a notebook that goes on from a lesson, in ``notebooks/further/``: nothing in it is graded, it runs and
is compared as a solution is, and lesson and notebook lead to each other (``RULES``, ``is_linked``).
"""

from collections.abc import Iterator

from course_utils.authoring import rules_code, rules_numbers, rules_outputs, rules_prose, rules_structure
from course_utils.authoring.problems import Notebook, Problem
from course_utils.catalogue import LESSONS


def opening(notebook: Notebook) -> Iterator[Problem]:
    """The first cell says which lesson it goes on from, and leads back to it."""
    lesson = next((lesson for lesson in LESSONS if lesson.name == notebook.topic), None)
    if lesson is None:
        yield notebook.problem("catalogue", "No lesson has this notebook's name.", "call the file as the lesson's.")
        return
    heading, link = f"# Going further: {lesson.title}", f"(../{lesson.notebook}.ipynb)"
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.first_line != heading:
        yield notebook.problem("opening", "The notebook does not begin with its title.", f"write: {heading}", first)
    elif link not in first.source:
        what = "The first cell does not lead back to the lesson."
        yield notebook.problem("opening", what, f"say where it comes from: [lesson {lesson.number:02d}]{link}.", first)


def setup(notebook: Notebook) -> Iterator[Problem]:
    """The second cell is the set-up: imports, perhaps the lesson and a seed."""
    second = notebook.cells[1] if len(notebook.cells) > 1 else None
    if second is None or second.kind != "code" or rules_code.besides_setting_up(second, notebook.topic):
        what = "The second cell is not the set-up."
        mend = f'let it hold the imports, perhaps lesson = Lesson("{notebook.topic}") and a seed, and nothing else.'
        yield notebook.problem("setup", what, mend, second)


def ungraded(notebook: Notebook) -> Iterator[Problem]:
    """No exercise, no check, no prediction, no written question."""
    for cell in notebook.cells:
        asks = [call for call in ("lesson.check(", "lesson.predict(") if cell.kind == "code" and call in cell.source]
        if cell.grading or asks:
            what = "The cell asks something that is judged."
            yield notebook.problem("ungraded", what, "keep it in the lesson, or only show it here.", cell)


def is_linked(notebook: Notebook) -> Iterator[Problem]:
    """A lesson from which a notebook goes on says so."""
    file = notebook.name.rpartition("/")[2]
    if f"further/{file}" in notebook.beside and not any(f"](further/{file}" in c.source for c in notebook.cells):
        what = f"Nothing leads to further/{file}."
        yield notebook.problem("link", what, f"write [Going further](further/{file}) where a passage has left.")


RULES = (
    rules_structure.valid_format,
    rules_structure.unique_ids,
    opening,
    setup,
    ungraded,
    rules_code.code_reads,
    rules_outputs.executed,
    rules_outputs.quiet,
    rules_outputs.comparable,
    rules_outputs.small,
    rules_outputs.figures_speak,
    rules_prose.links,
    rules_numbers.numbers,
)

"""What PyTorch says to each prediction of the lessons: stored beside this file (``stored``), found out by running the
learners' notebooks (``run``), since neither notebook holds it.

A notebook is run as a learner gets it, so it also shows which outputs need no answer of anybody's.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course_utils.authoring.execute import executed
from course_utils.authoring.files import Course, read
from course_utils.catalogue import LESSONS, LessonInfo

PATH = Path(__file__).with_name("answers.json")
LISTEN = """\
from course_utils.base.text import describe as _describe
_said, _predict = {}, lesson.predict

def _listening(question, guess, actual):
    _said[question] = _describe(actual)
    return _predict(question, guess, actual)

lesson.predict = _listening"""
TELL = "import json\nprint(json.dumps(_said))"


def stored() -> dict[str, dict[str, str]]:
    """For each lesson, by its name, the answer to each question, in short form."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def run(course: Course, lesson: LessonInfo) -> tuple[dict[str, str], NotebookNode]:
    """Runs a learner's notebook; returns what PyTorch says to its questions, and the notebook with its outputs."""
    notebook = read(course.learners / f"{lesson.notebook}.ipynb")
    (setup,) = (i for i, cell in enumerate(notebook.cells) if cell.id == "setup")
    notebook.cells.insert(setup + 1, new_code_cell(LISTEN, id="listen"))
    notebook.cells.append(new_code_cell(TELL, id="tell"))
    notebook = executed(notebook, course.learners)
    return json.loads(notebook.cells.pop().outputs[0].text), notebook


def store(course: Course, lessons: Iterable[LessonInfo]) -> None:
    """Runs these lessons, says so, and writes the file; what it has of others stays."""
    said = stored()
    for lesson in lessons:
        said[lesson.name] = run(course, lesson)[0]
        print(f"{lesson.notebook}: {len(said[lesson.name])} answers")
    said = {lesson.name: said[lesson.name] for lesson in LESSONS}
    PATH.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

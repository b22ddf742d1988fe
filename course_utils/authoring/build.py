"""All that is made (``made``), and written where it is not there yet (``build``): what ``derive`` adds to the solution
notebooks, and the learner notebooks (``learner_text``).

A learner notebook is nbgrader's work: the preprocessors that ``nbgrader generate_assignment`` applies, in its order,
with the settings of the course's ``nbgrader_config.py``. Only ``SaveCells`` is left out, which changes no notebook: it
fills the gradebook. So a teacher's release is, byte for byte, the notebook that learners open.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from course_utils.authoring.derive import catalogue, derived, entries, readme, sittings, with_minutes
from course_utils.authoring.files import Course, dumps, normalised, read, topic_of
from course_utils.authoring.lint import unique_ids
from course_utils.authoring.problems import Notebook, report
from course_utils.base import explain
from course_utils.base.files import write_whole
from course_utils.catalogue import LESSONS


def learner_text(solution: NotebookNode, config: Path) -> str:
    """The learner notebook's file, as text.

    Args:
        solution: the solution notebook, as ``files.read`` gives it; left as it is.
        config: the course's ``nbgrader_config.py``.

    Raises:
        ValueError: cell ids are missing or not unique (the build would make random ones up), or nbgrader refuses the
            notebook: an unclosed solution region, metadata that it does not know.
    """
    if problems := list(unique_ids(Notebook("the notebook", "", solution))):
        raise ValueError(f"no learner notebook can be made.\n{report(problems)}")
    from nbgrader.nbgraderformat.common import SchemaMismatchError, ValidationError

    exporter = _exporter(config)
    try:
        text, _ = exporter.from_notebook_node(normalised(solution), resources={"metadata": {"name": "", "path": ""}})
    except (RuntimeError, ValueError, ValidationError, SchemaMismatchError) as error:
        did = f"nbgrader could not make the learner notebook: {str(error).splitlines()[0]}"
        expected = "solution regions that open and close, in cells marked as solutions, and valid nbgrader metadata."
        raise ValueError(explain(did, expected)) from error
    return text


def _exporter(config_path: Path) -> Any:
    # Imported here: nbgrader brings its database layer, most of a second, and linting or running needs none of it.
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import SaveCells
    from traitlets.config import PyFileConfigLoader

    if not config_path.is_file():
        expected = "the course's nbgrader settings, which hold the stub's text."
        raise ValueError(explain(f"{config_path} does not exist.", expected))
    config = PyFileConfigLoader(config_path.name, path=str(config_path.parent)).load_config()
    converter = GenerateAssignment(coursedir=None, config=config)
    exporter = converter.exporter_class(parent=converter, config=converter.config)
    for preprocessor in converter.preprocessors:
        if preprocessor is not SaveCells:
            exporter.register_preprocessor(preprocessor)
    return exporter


def build(course: Course, names: Sequence[str] = ()) -> list[Path]:
    """Makes everything anew that is made (see ``made``) and returns the files that changed; where it raises, none did.

    Raises:
        ValueError: as ``derived`` and ``learner_text``, with the notebook's name before it.
    """
    texts = made(course, names)
    changed = [path for path, text in texts.items() if _current(path) != text]
    for path in changed:
        write_whole(path, texts[path])
    return changed


def made(course: Course, names: Sequence[str] = ()) -> dict[Path, str]:
    """The text of every file of which something is made: notebooks of all kinds, the catalogue, README."""
    texts: dict[Path, str] = {}
    lessons = {lesson.notebook: (lesson, len(entries(course.exercises(lesson.name)))) for lesson in LESSONS}
    for path in course.solution_paths(names):
        try:
            exercises = entries(course.exercises(topic_of(path)))
            notebook = derived(read(path), topic_of(path), exercises)
            if path.stem in lessons:
                points, minutes = sum(entry.points for entry in exercises.values()), sittings(notebook)
                lessons[path.stem] = replace(lessons[path.stem][0], points=points, minutes=minutes), len(exercises)
                with_minutes(notebook, minutes)
            texts[path] = dumps(notebook)
            texts[course.learners / path.name] = learner_text(notebook, course.config)
        except ValueError as error:
            raise ValueError(f"{course.name(path)}: {error}") from error
    for path in course.further_paths(names):
        texts[path] = dumps(normalised(read(path)))
    if (text := _current(course.catalogue)) is not None:
        texts[course.catalogue] = catalogue(text, {lesson.name: lesson for lesson, _ in lessons.values()})
    if (text := _current(course.readme)) is not None:
        texts[course.readme] = readme(text, lessons.values())
    return texts


def _current(path: Path) -> str | None:
    # Text, not bytes: git may have given a Windows checkout other line ends.
    return path.read_text(encoding="utf-8") if path.exists() else None

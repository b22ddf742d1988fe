"""Makes a course folder from the lessons (``create``) and releases its assignments (``release``): by nbgrader's own
generate_assignment, with what it does not ask: that a source can be graded, that nothing shows a solution, and that
tests of a teacher's own tell right from wrong.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from course_utils.authoring.files import Course, read, topic_of
from course_utils.authoring.lint import lint_learner, report, solution_regions, unique_ids
from course_utils.authoring.problems import Notebook, Problem
from course_utils.base.files import write_whole
from course_utils.catalogue import COURSE, LESSONS
from course_utils.classroom.course.folder import CONFIG, EARLIER, HIDDEN_TESTS, ClassFolder, last_words
from course_utils.classroom.course.source import called_on_lesson, lessons_made
from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.rebuild.reading import read_released

# Only what plain nbgrader needs to treat the lessons right; everything else is nbgrader's default, for you to set.
CONFIG_TEXT = '''\
"""nbgrader's settings for this course; https://nbgrader.readthedocs.io/en/stable/configuration/config_options.html
lists them all. Both `nbgrader` and `autograd-control classroom` read this file.
"""

from course_utils.authoring.stubs import preprocessors
from course_utils.classroom.course.shown import harmless

c = get_config()  # noqa: F821  traitlets puts get_config in this file's namespace before it runs it

c.CourseDirectory.course_id = {course_id!r}

# A gradebook on a server that several people use, in place of gradebook.db in this folder:
# c.CourseDirectory.db_url = "postgresql+psycopg://user:password@host/gradebook"

# What stands in place of a solution. `pass` is right wherever a statement is, so that Run All on an untouched notebook
# reaches the last cell.
c.ClearSolutions.code_stub = {{"python": "# Your answer here.\\npass"}}
c.ClearSolutions.text_stub = "*Your answer here.*"
c.GenerateAssignment.preprocessors = preprocessors()  # a dict of `...` is its own place for the answer

# Students' texts on nbgrader's pages, feedback and Formgrader: without HTML that acts, and no page that takes minutes.
harmless(c)

# For plain `nbgrader autograde`: a kernel that is stopped at once saves half a second a submission, and a check cell
# that a student deleted costs them nothing.
c.ExecutePreprocessor.shutdown_kernel = "immediate"
c.OverwriteCells.add_missing_cells = True
'''


def create(root: Path, lessons: Sequence[str] = (), course_id: str = "") -> list[str]:
    """Makes a course folder, or adds what is missing to one. What a teacher has changed stays as it is.

    Args:
        root: the course folder; made where it does not exist.
        lessons: such as ``03_detach`` or ``detach``; all where it is empty.
        course_id: nbgrader's name of the course; the folder's name where it is empty.

    Returns:
        A line for each file that was written, or is there already with other content.

    Raises:
        ValueError: there is no such lesson.
    """
    root = root.resolve()
    texts = {root / CONFIG: CONFIG_TEXT.format(course_id=course_id or root.name)}
    for path in Course(COURSE).solution_paths(lessons):
        texts[root / "source" / path.stem / path.name] = path.read_text(encoding="utf-8")
    done = []
    for path, text in texts.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            done.append(f"wrote {write_whole(path, text)}")
        elif path.read_text(encoding="utf-8") != text:
            done.append(f"kept {path}: it is there already, and is not what this command would write")
    return sorted(done, key=lambda line: line.startswith("kept"))


def release(course: ClassFolder, assignment: str, tries: bool = True) -> float:
    """Writes ``release/ASSIGNMENT`` from ``source/ASSIGNMENT`` and enters the assignment in the gradebook.

    Releasing again after a change is safe: marks stay. Once there are submissions, nbgrader refuses to add or leave out
    a graded cell, and says so: set the points of an exercise to 0 instead.

    Args:
        tries: whether to run tests of the teacher's own, in the sandbox.

    Returns:
        The points that all its graded cells can earn.

    Raises:
        ValueError: the source breaks a rule that grading stands on, a released cell shows a solution, or nbgrader
            refuses; the message lists what to mend. Then the release that was there, and the gradebook, are as before.
    """
    source, target = course.notebook("source", assignment), course.notebook("release", assignment)
    page = Notebook(f"source/{assignment}/{source.name}", topic_of(source), read(source))
    _refuse(assignment, [problem for rule in (unique_ids, solution_regions, _checks) for problem in rule(page)])
    with TemporaryDirectory(prefix="release-", dir=course.root) as folder:  # the old one stays till the end
        made = _generate(course, assignment, Path(folder).name, enter=False)
        _refuse(assignment, lint_learner(made, source, name=f"release/{assignment}/{target.name}"))
        if tries:
            _refuse(assignment, _tried(page, Notebook(page.name, page.topic, read(made))))
        made = _generate(course, assignment, Path(folder).name, enter=True)
        if target.parent.exists():
            is_same = target.is_file() and target.read_bytes() == made.read_bytes()
            kept = Path(folder) if is_same else course.root / EARLIER / assignment  # which students were given
            shutil.move(target.parent, kept / f"before-{Path(folder).name}")
        shutil.move(made.parent, target.parent)
    return sum(cell.points for cell in read_released(target.read_text(encoding="utf-8")).graded)


def _refuse(assignment: str, problems: Iterable[Problem]) -> None:
    if found := list(problems):
        raise ValueError(f"{assignment} is not released, because grading would go wrong.\n\n{report(found)}")


def _generate(course: ClassFolder, assignment: str, folder: str, *, enter: bool) -> Path:
    """Has nbgrader make the students' notebook in a folder of the course, and enter it in the gradebook where asked."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.utils import capture_log, temp_attrs

    with temp_attrs(course.api.coursedir, assignment_id=assignment, release_directory=folder):
        app = GenerateAssignment(coursedir=course.api.coursedir, parent=course.api)
        app.force, app.create_assignment, app.no_database = True, True, not enter
        app.config.SaveCells.enabled = enter
        result = capture_log(app)
        if result["success"]:
            return course.notebook("release", assignment)
    said = f"nbgrader could not release {assignment}: {last_words(result)}"
    raise ValueError(f"{said}\nMend what it names, and release again; the release that is there is as it was.")


def _checks(page: Notebook) -> Iterator[Problem]:
    """A lesson's check stands alone in its cell, and its exercise is known; other tests are tried."""
    lessons: dict[str, str] = {}
    for cell in page.code:
        lessons |= lessons_made(cell.source)
        if not cell.is_check:
            continue
        match called_on_lesson(cell.source):
            case variable, name, _ if variable in lessons:
                known = next((info.exercises for info in LESSONS if info.name == lessons[variable]), {})
                if name not in known:
                    named = ", ".join(known) or "none; lessons are " + ", ".join(info.name for info in LESSONS)
                    what = f"The lesson {lessons[variable]} has no exercise {name}; it has {named}."
                    yield page.problem("exercise", what, "mend the name, or write tests of your own.", cell)
            case _ if any(f"{variable}.check(" in cell.source for variable in lessons):
                what = "A lesson's check stands together with something else, so that it would not be judged as one."
                mend = "let the cell hold it alone; put tests of your own, hidden ones too, into a check cell after it."
                yield page.problem("check-call", what, mend, cell)


def _tried(page: Notebook, made: Notebook) -> Iterator[Problem]:
    """What is wrong with tests of the teacher's own: tests that refuse the source's answers would cost the whole class
    its points, tests that pass the notebook as it is released would give them away."""
    places = {cell.grade_id: cell for cell in page.cells}
    for cell in made.cells:
        if cell.is_check:
            cell.node.metadata[HIDDEN_TESTS] = places[cell.grade_id].source
    released = json.dumps(made.node)
    own = {cell.grade_id for cell in read_released(released).graded if cell.role == "check" and not cell.lesson}
    if not own:
        return
    solved = json.loads(released)
    for cell in solved["cells"]:
        grading = cell["metadata"].get("nbgrader", {})
        if grading.get("solution") and cell["cell_type"] == "code":
            cell["source"] = places[grading["grade_id"]].plain_code
    with Grader() as grader:
        for is_right, content in ((True, json.dumps(solved)), (False, released)):
            results = grader.grade(released, content.encode(), student="teacher", assignment=page.name).exercises
            for result in (result for result in results if result.grade_id in own):
                earns = f"earns {result.earned:g} of {result.possible:g} points"
                if is_right and result.earned < result.possible:
                    why = "; ".join(why for why, _ in result.lost) or result.outcome
                    what, mend = f"The source's own answer {earns}: {why}.", "mend the answer or the test."
                    yield page.problem("own-tests", what, mend, places[result.grade_id])
                elif not is_right and result.earned > 0:
                    what = f"An untouched answer {earns}."
                    mend = "let every test call the answer, and compare what it gives in an assert without brackets."
                    yield page.problem("own-tests", what, mend, places[result.grade_id])

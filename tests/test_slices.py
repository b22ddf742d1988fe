"""Which cells of a learner notebook a push runs."""

import pytest

from course_utils.authoring import cells
from tests.slices import cells_to_run

SETUP = ("setup", "import torch\nfrom course_utils import Lesson\nlesson = Lesson('detach')")
CHECK = ("check", "lesson.check('double', double)")


def notebook(*sources):
    return cells.notebook([cells.markdown("# A title", "title"), *(cells.code(code, name) for name, code in sources)])


def run_of(learners, solved):
    """The ids of the cells that are run."""
    learners = notebook(*learners)
    code = [cell.id for cell in learners.cells if cell.cell_type == "code"]
    return [code[number] for number in sorted(cells_to_run(learners, notebook(*solved)))]


@pytest.mark.parametrize(
    ("between", "then", "expected"),
    [
        ([("other", "x = torch.ones(2)")], [], "setup answer check"),  # nothing leans on it
        ([("factor", "factor = 2")], [], "setup factor answer check"),  # the answer leans on it
        ([("factor", "factor = 1"), ("again", "factor = 2")], [], "setup again answer check"),  # the last one counts
        ([("factor", "factor = half * 2"), ("half", "half = 1")], [], "setup factor half answer check"),
        (
            [],
            [("uses", "shown = double(3)"), ("on", "print(shown)")],
            "setup answer check uses on",
        ),  # it may raise
        ([], [("late", "factor = 2")], "setup answer check late"),  # a function may use what comes behind it
        ([("magic", "%%time\nfactor = 2")], [("words", "these are no words of Python")], "setup magic answer check"),
    ],
)
def test_what_differs_is_run_with_what_uses_it_and_what_it_needs(between, then, expected):
    learners = [SETUP, *between, ("answer", "def double(x):\n    return factor"), CHECK, *then]
    solved = [SETUP, *between, ("answer", "def double(x):\n    return 2 * x"), CHECK, *then]
    assert run_of(learners, solved) == expected.split()


def test_a_cell_that_the_solution_does_not_have_is_run():
    assert run_of([SETUP, ("new", "print(1)")], [SETUP]) == ["new"]
    assert run_of([SETUP, ("words", "no Python here")], [SETUP]) == ["words"]
    assert run_of([SETUP, CHECK], [SETUP, CHECK]) == []

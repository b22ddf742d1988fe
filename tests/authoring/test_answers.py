"""The course's own answers as objects."""

import pytest
import torch

from course_utils.authoring import cells
from course_utils.authoring.answers import own_answers


def test_every_answer_cell_gives_its_answer(solution, tmp_path):
    answers = own_answers(cells.write(solution, tmp_path / "03_detach.ipynb"))
    assert list(answers) == ["snapshot", "predicted_edit"]
    x = torch.ones(2)
    copy = answers["snapshot"](x)
    assert copy.equal(x) and copy.data_ptr() != x.data_ptr()
    assert answers["predicted_edit"] == {"detach_edit": "error", "data_edit": "wrong gradient"}


def test_no_answer_can_lean_on_another_cell(tmp_path):
    notebook = cells.notebook(
        [
            cells.setup("detach"),
            cells.code("helper = 2", "between"),
            cells.answer("snapshot = helper", "detach", "snapshot"),
        ]
    )
    with pytest.raises(NameError, match="helper"):
        own_answers(cells.write(notebook, tmp_path / "03_detach.ipynb"))

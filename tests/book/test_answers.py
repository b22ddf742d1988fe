"""What the site says of predictions and outputs is what a learner's own run says."""

import pytest

from course_utils.catalogue import LESSONS
from tests.book.given import COURSE
from tools.book import answers, lessons

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_learner_s_run_gives_the_stored_answers_and_the_shown_outputs(lesson):
    said, notebook = answers.run(COURSE, lesson)
    assert answers.stored()[lesson.name] == said, "To store them: python -m tools.book answers"
    ran = {cell.id: cell for cell in notebook.cells}
    for cell in lessons.page(COURSE, lesson, said).cells:
        if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", ()):
            seen = [words(output) for output in ran[cell.id].outputs]
            assert [text for text in map(words, cell.outputs) if text not in seen] == [], cell.id


def words(output):
    return output.get("text") or output.data["text/plain"]

"""Every lesson as it is today: run in JupyterLab, and read on two themes, every night.

What JupyterLab does with a lesson is looked at by each push, too: with the frozen lesson of ``test_learner``.
"""

import pytest

from tests.browser.jupyterlab import NOTEBOOKS, assert_readable

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_lesson_runs_to_its_end_and_can_be_read_on_the_dark_theme(open_notebook, path):
    lab = open_notebook(path)
    lab.run_all()
    lab.picture("light")
    assert lab.errors.count() == 0 and lab.failures == [] and lab.requests == []
    lab.use_theme("JupyterLab Dark")
    lab.picture("dark")
    assert_readable(lab, texts=10)

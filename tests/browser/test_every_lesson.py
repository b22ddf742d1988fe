"""Every lesson but 03, which test_learner.py looks at in every way: run in JupyterLab, and read on two themes.

A file of its own, so that it does not wait for that one: a file is one worker's job.
"""

import pytest

from tests.browser.jupyterlab import DETACH, NOTEBOOKS, assert_readable

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.nightly]

OTHERS = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if path != DETACH]


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_every_other_lesson_runs_to_its_end_and_can_be_read_on_the_dark_theme(open_notebook, path):
    lab = open_notebook(path)
    lab.run_all()
    lab.picture("light")
    assert lab.errors.count() == 0 and lab.failures == [] and lab.requests == []
    lab.use_theme("JupyterLab Dark")
    lab.picture("dark")
    assert_readable(lab, texts=10)

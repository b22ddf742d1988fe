"""Every lesson as it is today: run in JupyterLab, and read on two themes. A push looks at one, the night at all.

A file of its own, so that it does not wait for that one: a file is one worker's job.
"""

import pytest

from tests.browser.jupyterlab import NOTEBOOKS, assert_readable

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LESSONS = [
    pytest.param(path, id=path.stem, marks=[] if path.stem == "00_start_here" else [pytest.mark.nightly])
    for path in sorted(NOTEBOOKS.glob("*.ipynb"))
]


@pytest.mark.parametrize("path", LESSONS)
def test_every_lesson_runs_to_its_end_and_can_be_read_on_the_dark_theme(open_notebook, path):
    lab = open_notebook(path)
    lab.run_all()
    lab.picture("light")
    assert lab.errors.count() == 0 and lab.failures == [] and lab.requests == []
    lab.use_theme("JupyterLab Dark")
    lab.picture("dark")
    assert_readable(lab, texts=10)

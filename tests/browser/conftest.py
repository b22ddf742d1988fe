"""What the tests in a browser stand on: Chromium, one JupyterLab for a whole module, and a fresh lesson for each test.

Chromium is taken from the environment variable ``CHROMIUM``, from the system, or from Playwright's own folder. Where
there is none, these tests are skipped, except in CI (``CI`` is set): there they fail. ``SCREENSHOTS`` names a folder
for pictures of every step, to be looked at: nothing is compared by pixel.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from playwright.sync_api import Browser, sync_playwright

from tests.browser.jupyterlab import DETACH, WAIT_MILLISECONDS, WINDOW, Lab, Server, serve

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
# Rootless sandboxes need what containers seldom grant; the pages shown are the course's own. The rest keeps the
# browser from calling home.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def require_chromium(playwrights_own: str) -> str:
    """The program to start; where there is none, the test is skipped, or fails in CI."""
    names = [os.environ["CHROMIUM"]] if os.environ.get("CHROMIUM") else [*NAMES, playwrights_own]
    if program := next(filter(None, map(shutil.which, names)), None):
        return program
    reason = f"No Chromium was found: none of {', '.join(names)}. The environment variable CHROMIUM can name one."
    if os.environ.get("CI", "false") != "false":
        pytest.fail(f"{reason} In CI these tests must run.")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = require_chromium(playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # After the browser: without one, no server is started.
    scratch = tmp_path_factory.mktemp("jupyterlab")
    (scratch / "root").mkdir()
    with serve(scratch / "root", scratch) as server:
        yield server


@contextmanager
def learner(browser: Browser, server: Server, name: str) -> Iterator[Callable[..., Lab]]:
    """A new learner, with a function to open copies of notebooks; stops their kernels in the end."""
    server.begin_afresh()
    context = browser.new_context(viewport=WINDOW, reduced_motion="reduce")
    context.set_default_timeout(WAIT_MILLISECONDS)
    pictures = Path(os.environ["SCREENSHOTS"]) if os.environ.get("SCREENSHOTS") else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    folder = server.root / name
    folder.mkdir()

    def open_notebook(source: Path | NotebookNode, file_name: str = "") -> Lab:
        path = folder / (file_name or source.name)
        if isinstance(source, Path):
            shutil.copyfile(source, path)
        else:
            nbformat.write(source, path)
        return Lab.open(context, server, path, pictures)

    yield open_notebook
    server.stop_kernels(folder, context)
    context.close()


@pytest.fixture
def open_notebook(
    browser: Browser, server: Server, request: pytest.FixtureRequest
) -> Iterator[Callable[[Path | NotebookNode, str], Lab]]:
    """``open_notebook(source, file_name="")`` opens a copy of a notebook for a learner of the test's own."""
    # The name is a folder's and part of an address: without the brackets of a parameter.
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")
    with learner(browser, server, name) as open_notebook:
        yield open_notebook


@pytest.fixture(scope="module")
def untouched(browser: Browser, server: Server) -> Iterator[Lab]:
    """Lesson 03 as a learner gets it, after Run All."""
    with learner(browser, server, "untouched") as open_notebook:
        lab = open_notebook(DETACH)
        lab.picture("opened")
        lab.run_all()
        lab.picture("run")
        yield lab

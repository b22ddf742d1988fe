"""JupyterLab for tests: a server (``serve``), and an open notebook with what a learner does in it (``Lab``).

The server is started by the very command that ``make lab`` uses, with settings, workspaces, kernels' history and
progress in folders of its own. Selectors are the class names that JupyterLab documents for themes and extensions
(``.jp-Notebook``, ``.jp-Cell``, ``.jp-OutputArea-output``, ``.jp-InputPrompt``), and the words of its menus and command
palette. A cell is named by its id in the file: JupyterLab shows cells in the file's order.
"""

import json
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, quote, urlsplit

import nbformat
from axe_playwright_python.base import AXE_SCRIPT
from nbformat import NotebookNode
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from course_utils.workspace.__main__ import lab_command

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
# A lesson as it once was: a change of the lesson changes no test of the browser.
DETACH = Path(__file__).resolve().parents[1] / "frozen" / "notebooks" / "03_detach.ipynb"
WINDOW = {"width": 1280, "height": 900}
START_SECONDS = 60
WAIT_MILLISECONDS = 15_000  # for anything that the page does at once when the machine has nothing else to do
RUN_MILLISECONDS = 180_000  # a whole lesson, its kernel just started, on a machine with other things to do
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")
expect.set_options(timeout=WAIT_MILLISECONDS)
LEAST_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3
CARDS = ".jp-RenderedHTML.jp-OutputArea-output"
ERRORS = ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']"
# The three states in which a run of all cells can be found. Prompts are "[ ]:", "[*]:" and "[7]:".
RUN_STATE = """([errors, inOrder]) => {
    if (document.querySelector(errors)) return "an error";
    const prompts = [...document.querySelectorAll(".jp-Notebook .jp-CodeCell .jp-InputPrompt")];
    const counts = prompts.map(prompt => Number((/\\[(\\d+)\\]/.exec(prompt.textContent) || [])[1]));
    const done = inOrder ? counts.every((count, i) => count === i + 1) : counts.every(count => count > 0);
    return done && counts.length ? "done" : null;
}"""
# How much of the notebook lies below the window's lower edge once its top is in sight.
PIXELS_BELOW = """frame => {
    frame.scrollTop = 0;
    const last = [...frame.querySelectorAll(".jp-Cell")].at(-1);
    return Math.ceil(last.getBoundingClientRect().bottom - frame.getBoundingClientRect().bottom) + 20;
}"""
CONTRAST = Path(__file__).with_name("contrast.js")


@dataclass
class Server:
    """A running JupyterLab.

    Attributes:
        root: the folder that it shows.
        url: its address, ending in a slash.
        token: what opens it.
        progress: the folder of the progress file of every kernel that it starts.
        settings: the folder of the user's settings.
    """

    root: Path
    url: str
    token: str
    progress: Path
    settings: Path

    def address(self, path: str, workspace: str) -> str:
        """The page with a notebook open and nothing else, whatever other pages have left open."""
        return f"{self.url}lab/workspaces/{workspace}/tree/{quote(path)}?token={self.token}"

    def begin_afresh(self) -> None:
        """What it shows next is for a new learner: no progress, no chosen theme."""
        for folder in (self.progress, self.settings):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        # JupyterLab asks each new user whether they want news, in a box that lies over the notebook's last lines.
        answers = self.settings / "@jupyterlab" / "apputils-extension"
        answers.mkdir(parents=True)
        text = json.dumps({"fetchNews": "false", "checkForUpdates": False})
        (answers / "notification.jupyterlab-settings").write_text(text)

    def stop_kernels(self, folder: Path, context: BrowserContext) -> None:
        """Stops the kernels of the notebooks in a folder below ``root``."""
        head = {"Authorization": f"token {self.token}"}
        for session in context.request.get(f"{self.url}api/sessions", headers=head).json():
            if (self.root / session["path"]).parent == folder:
                context.request.delete(f"{self.url}api/sessions/{session['id']}", headers=head)


@contextmanager
def serve(root: Path, scratch: Path) -> Iterator[Server]:
    """Starts JupyterLab on ``root`` and a free port, and stops it with every kernel.

    Args:
        root: the folder to show.
        scratch: an empty folder for everything else that it writes.

    Raises:
        RuntimeError: it did not print its address; the message holds what it printed.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "MPL", "PYTEST_"))
    }
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        environment[f"JUPYTER_{name}"] = str(scratch / name.lower())
    for name in ("SETTINGS_DIR", "WORKSPACES_DIR"):
        environment[f"JUPYTERLAB_{name}"] = str(scratch / name.lower())
    environment["IPYTHONDIR"] = str(scratch / "ipython")
    environment["COURSE_UTILS_PROGRESS"] = str(scratch / "progress" / "progress.sqlite3")
    # Other tests run beside these. Threads that wait for a core which somebody else has would spin for minutes.
    environment["OMP_NUM_THREADS"] = "1"
    options = ["--no-browser", "--port=0", *(["--allow-root"] if getattr(os, "geteuid", int)() == 0 else [])]
    process = subprocess.Popen(
        lab_command(root, [], options),
        env={**environment, "PYTHONUNBUFFERED": "1"},
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines))
    reader.start()
    try:
        parts = urlsplit(_printed_address(lines))
        token = parse_qs(parts.query)["token"][0]
        url = f"{parts.scheme}://{parts.netloc}/"
        yield Server(root, url, token, scratch / "progress", scratch / "settings_dir")
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        process.stdout.close()


def _read(stream: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    # To the end, also when nobody looks at the lines: where the pipe is full, the server stands still.
    for line in stream:
        lines.put(line)
    lines.put(None)


def _printed_address(lines: "queue.SimpleQueue[str | None]") -> str:
    printed, deadline = [], time.monotonic() + START_SECONDS
    with suppress(queue.Empty):
        while (line := lines.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
            printed.append(line)
            if found := re.search(r"http://(localhost|127\.0\.0\.1):[1-9]\d*/\S*token=\w+", line):
                return found[0]
    raise RuntimeError(f"JupyterLab ended, or printed no address in {START_SECONDS} s:\n{''.join(printed)}")


@dataclass
class Lab:
    """A notebook, open in JupyterLab, its kernel ready.

    Attributes:
        page: the browser's page.
        notebook: the file's content when it was opened.
        pictures: the folder for screenshots, None for none.
        name: how the screenshots' names begin.
        requests: addresses that the page asked for and that are not on this machine.
        failures: errors that the page reported.
    """

    page: Page
    notebook: NotebookNode
    pictures: Path | None = None
    name: str = ""
    requests: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, context: BrowserContext, server: Server, path: Path, pictures: Path | None = None) -> "Lab":
        """Opens the notebook at ``path``, a file below the server's root, and waits until its kernel can be used."""
        name = path.parent.name
        lab = cls(context.new_page(), nbformat.read(path, as_version=4), pictures, name)
        lab.page.on("request", lab._note_request)
        lab.page.on("pageerror", lambda error: lab.failures.append(str(error)))
        lab.page.on("console", lab._note_message)
        lab.page.goto(server.address(path.relative_to(server.root).as_posix(), name))
        expect(lab.page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=RUN_MILLISECONDS)
        expect(lab.cells).to_have_count(len(lab.notebook.cells))
        expect(lab.cells.first).to_be_focused()
        return lab

    def _note_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in ("localhost", "127.0.0.1"):
            self.requests.append(request.url)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.failures.append(message.text)

    @property
    def cells(self) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell")

    @property
    def errors(self) -> Locator:
        """Outputs of cells that raised."""
        return self.page.locator(ERRORS)

    def cell(self, id: str) -> Locator:
        """The cell with this id."""
        ids = [cell.id for cell in self.notebook.cells]
        return self.cells.nth(ids.index(id))

    def output(self, id: str) -> Locator:
        """What stands below a code cell; with a card, the card."""
        return self.cell(id).locator(".jp-OutputArea-output")

    def checks(self) -> list[str]:
        """The ids of the cells that check an answer."""
        return [
            cell.id
            for cell in self.notebook.cells
            if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade")
        ]

    def menu(self, *labels: str) -> None:
        """Chooses an entry of the menu bar: ``menu("Run", "Run All Cells")``."""
        for label in labels:
            self.page.get_by_role("menuitem", name=label, exact=True).click()

    def command(self, label: str) -> None:
        """Runs a command from the palette, by keyboard alone."""
        self.page.keyboard.press("ControlOrMeta+Shift+C")
        expect(self.page.locator("input.lm-CommandPalette-input")).to_be_focused()
        self.page.keyboard.type(label)
        expect(self.page.locator(".lm-CommandPalette-item.lm-mod-active")).to_have_text(re.compile(re.escape(label)))
        self.page.keyboard.press("Enter")

    def wait_until_run(self, in_order: bool = False) -> None:
        """Waits until every code cell has run, or one has raised.

        Args:
            in_order: wait until they have run once each in a fresh kernel, from the first to the last. Says more than
                "all have run" where they had before.
        """
        state = self.page.wait_for_function(RUN_STATE, arg=[ERRORS, in_order], timeout=RUN_MILLISECONDS).json_value()
        assert state == "done", self.errors.first.inner_text()

    def run_all(self) -> None:
        self.menu("Run", "Run All Cells")
        self.wait_until_run(in_order=True)

    def write(self, id: str, source: str) -> None:
        """Puts ``source`` in place of what stands in a code cell, with the mouse and by pasting."""
        editor = self.cell(id).locator(".cm-content")
        editor.click()
        expect(editor).to_be_focused()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)
        self.expect_source(id, source)

    def expect_source(self, id: str, source: str) -> None:
        expect(self.cell(id).locator(".cm-line")).to_have_text(source.split("\n"))

    def run_cell(self, id: str) -> None:
        """Runs the cell that has the focus, which is the one with this id, and goes to the next."""
        expect(self.cell(id)).to_have_class(re.compile(r"\bjp-mod-active\b"))
        before = self.cell(id).locator(".jp-InputPrompt").text_content()
        self.page.keyboard.press("Shift+Enter")
        ran = re.compile(r"^\[(?!" + re.escape(before.strip("[]:")) + r"\])\d+\]:$")
        expect(self.cell(id).locator(".jp-InputPrompt")).to_have_text(ran, timeout=RUN_MILLISECONDS)

    def use_theme(self, theme: str) -> None:
        """One of ``THEMES``."""
        self.command(f"Use Theme: {theme}")
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-name", theme)

    def audit(self, selector: str) -> list[str]:
        """What axe-core finds wrong with the structure of what ``selector`` finds: lists, tables, headings, roles.

        What it cannot judge counts as wrong, except colours: ``contrasts`` sees more of those.
        """
        with self._whole_notebook():
            if not self.page.evaluate("typeof axe === 'object'"):
                self.page.evaluate(AXE_SCRIPT)
            found = self.page.evaluate("selector => axe.run(selector)", selector)
        unjudged = [rule for rule in found["incomplete"] if rule["id"] != "color-contrast"]
        assert len(found["passes"]) > 5, "axe has found nothing to look at"
        return [
            f"{rule['id']}: {node['html']}\n{node['failureSummary']}"
            for rule in found["violations"] + unjudged
            for node in rule["nodes"]
        ]

    def contrasts(self, selector: str) -> list[tuple[float, str]]:
        """The contrast of every piece of text in what ``selector`` finds, with the text, the weakest first."""
        with self._whole_notebook():
            found = self.page.locator(selector).evaluate_all(CONTRAST.read_text(encoding="utf-8"))
        return sorted((ratio, text) for ratio, text in found)

    def picture(self, step: str) -> None:
        """Takes a screenshot of the whole notebook, where somebody asked for screenshots."""
        if self.pictures:
            with self._whole_notebook():
                self.page.screenshot(path=self.pictures / f"{self.name}-{step}.png")

    @contextmanager
    def _whole_notebook(self) -> Iterator[None]:
        # JupyterLab lays out and paints only the cells in sight: so the window becomes as tall as the notebook.
        frame = self.page.locator(".jp-WindowedPanel-outer")
        before = frame.evaluate("frame => frame.scrollTop")
        try:
            for _ in range(2):  # heights of cells that had not been in sight were estimates
                hidden = frame.evaluate(PIXELS_BELOW)
                size = self.page.viewport_size
                height = min(max(size["height"] + hidden, WINDOW["height"]), 16_000)
                self.page.set_viewport_size({"width": size["width"], "height": height})
                frame.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            yield
        finally:
            self.page.set_viewport_size(WINDOW)
            frame.evaluate("(frame, top) => { frame.scrollTop = top; }", before)


def assert_readable(lab, texts):
    """Every text of every card stands out from its ground, and there are at least so many texts."""
    contrasts = lab.contrasts(CARDS)
    assert len(contrasts) >= texts
    assert [found for found in contrasts if found[0] < LEAST_CONTRAST] == []

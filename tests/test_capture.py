"""What an answer prints, warns or displays stays out of the learner's cell, in a real kernel too."""

import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from course_utils.capture import LIMIT, Capture

SETUP = """
import logging, os, subprocess, sys, threading, warnings
import torch
from IPython.display import HTML, display
from course_utils import Lesson
lesson = Lesson("detach")
log = logging.getLogger("answer")
logging.basicConfig()   # a handler that keeps the kernel's own stderr
"""

ANSWERS = {
    "print": 'print("out"); print("err", file=sys.stderr)',
    "display": 'display(2.0); display(HTML("<b>2.0</b>"))',
    "logging": 'log.warning("logged")',
    "descriptors": 'os.write(1, b"one\\n"); os.write(2, b"two\\n")',
    "child process": 'subprocess.run([sys.executable, "-c", "import sys; print(3, file=sys.stderr)"])',
    "Python warning": 'warnings.warn("mind this")',
    "torch warning": "(x.double().requires_grad_() * 1).grad",
    "thread": 'thread = threading.Thread(target=print, args=("from a thread",)); thread.start(); thread.join()',
    "own stream": 'sys.stderr = sys.__stderr__; print("kept", file=sys.stderr)',
}


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each check cell, from one kernel."""
    cells = [nbformat.v4.new_code_cell(SETUP)]
    for source in ANSWERS.values():
        answer = f"def answer(x):\n    {source}\n    return x.detach().clone()\n"
        cells.append(nbformat.v4.new_code_cell(answer + 'lesson.check("snapshot", answer)'))
    cells.append(nbformat.v4.new_code_cell('print("still here"); print("err", file=sys.stderr); display(1.0)'))
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_UTILS_PROGRESS", "off")  # inherited by the kernel
        NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    return dict(zip([*ANSWERS, "afterwards"], [cell.outputs for cell in notebook.cells[1:]], strict=True))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_check_cell_holds_the_card_alone(outputs, name):
    found = outputs[name]
    assert [output.output_type for output in found] == ["execute_result"], found
    assert found[0].data["text/plain"] == "1.0"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("print", "err"),
        ("display", "2.0"),
        ("logging", "logged"),
        ("descriptors", "two"),
        ("child process", "3"),
        ("Python warning", "mind this"),
        ("torch warning", "not a leaf"),
        ("thread", "from a thread"),
    ],
)
def test_the_card_shows_what_came_out(outputs, name, text):
    assert text in outputs[name][0].data["text/html"]


def test_the_streams_work_again_afterwards(outputs):
    kinds = [(output.output_type, output.get("name")) for output in outputs["afterwards"]]
    assert sorted(kinds, key=str) == [("display_data", None), ("stream", "stderr"), ("stream", "stdout")]


def test_quit_does_not_end_the_kernel():
    source = "def answer(x):\n    quit()\n"
    cells = [SETUP, source + 'lesson.check("snapshot", answer)', "1 + 1"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    assert "SystemExit" in notebook.cells[1].outputs[0].data["text/html"]
    assert notebook.cells[2].outputs[0].data["text/plain"] == "2"


def test_output_is_cut_at_the_limit_and_the_rest_is_counted():
    with Capture() as capture:
        print("x" * (LIMIT + 500))
    assert capture.text().startswith("x" * LIMIT) and "501 more characters" in capture.text()


def test_an_exception_inside_puts_the_streams_back():
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), Capture():
        print("hidden")
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before


def test_closed_descriptors_do_no_harm():
    script = (
        "import os; os.close(1); os.close(2)\n"
        "from course_utils.capture import Capture\n"
        "with Capture() as capture: print('kept')\n"
        "os._exit(0 if 'kept' in capture.text() else 1)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

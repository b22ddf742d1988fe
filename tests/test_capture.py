"""What an answer prints, warns or displays stays out of the learner's cell, in a real kernel too."""

import logging
import subprocess
import sys
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

from course_utils.checks.state import Capture

pytestmark = pytest.mark.slow

SETUP = """
import contextlib, io, logging, os, subprocess, sys, threading, warnings
import ipywidgets
import torch
from IPython.display import HTML, clear_output, display
from course_utils import Lesson
lesson = Lesson("detach")
log = logging.getLogger("answer")
logging.basicConfig()   # a handler that keeps the kernel's own stderr
"""

# What an answer does, and what its card shows of it; empty for nothing.
ANSWERS = {
    "print": ('print("out"); print("err", file=sys.stderr)', "err"),
    "display": ('display(2.0); display(HTML("<b>2.0</b>"))', "2.0"),
    "logging": ('log.warning("logged")', "logged"),
    "descriptors": ('os.write(1, b"one\\n"); os.write(2, b"two\\n")', "two"),
    "child process": ('subprocess.run([sys.executable, "-c", "import sys; print(3, file=sys.stderr)"])', "3"),
    "Python warning": ('warnings.warn("mind this")', "mind this"),
    "torch warning": ("(x.clone().double().requires_grad_() * 1).grad", "not a leaf"),
    "thread": ('thread = threading.Thread(target=print, args=("aside",)); thread.start(); thread.join()', "aside"),
    "own stream": ('sys.stderr = sys.__stderr__; print("kept", file=sys.stderr)', ""),
    "first stream": ('print("to the first", file=sys.__stdout__)', "to the first"),
    "rich": ("from rich.progress import track; list(track(range(3)))", ""),
    "output widget": (
        """
        out = ipywidgets.Output()
        display(out)
        with out:
            print("in the widget")
            display(3.0)
        out.clear_output(wait=True)""",
        "in the widget",
    ),
    "interaction": ("ipywidgets.interact(lambda n: print(n), n=3)", ""),
    "progress widget": ("bar = ipywidgets.IntProgress(max=3)\ndisplay(bar)\nfor bar.value in range(4): pass", ""),
    "handle": ("handle = display(4.0, display_id=True); clear_output(wait=True); handle.update(5.0)", "5.0"),
    "what a stream is asked": ("assert sys.stdout.name and not sys.stdout.isatty(); sys.stdout.flush()", ""),
    "handler": (
        """
        handler = logging.StreamHandler()
        log.addHandler(handler)
        log.error("handled")
        log.removeHandler(handler)""",
        "handled",
    ),
    "redirected": (
        """
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print("elsewhere")
        assert text.getvalue() == "elsewhere\\n" """,
        "",
    ),
    "lone surrogate": ("print(chr(0xD800))", "ud800"),
    "quit": ("quit()", "SystemExit"),  # which does not end the kernel
}


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each check cell, from one kernel."""
    cells = [nbformat.v4.new_code_cell(SETUP)]
    for source, _ in ANSWERS.values():
        body = textwrap.indent(textwrap.dedent(source), "    ")
        answer = f"def answer(x):\n{body}\n    return x.detach().clone()\n"
        cells.append(nbformat.v4.new_code_cell(answer + 'lesson.check("snapshot", answer)'))
    cells.append(nbformat.v4.new_code_cell('print("still here"); print("err", file=sys.stderr); display(1.0)'))
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_UTILS_PROGRESS", "off")  # inherited by the kernel
        NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    return dict(zip([*ANSWERS, "afterwards"], [cell.outputs for cell in notebook.cells[1:]], strict=True))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_check_cell_holds_the_card_alone_and_the_card_what_came_out(outputs, name):
    (found,) = outputs[name]
    assert found.output_type == "execute_result" and ANSWERS[name][1] in found.data["text/html"]
    assert found.data["text/plain"] == ("0.0" if name == "quit" else "1.0")


def test_the_streams_work_again_afterwards(outputs):
    kinds = [(output.output_type, output.get("name")) for output in outputs["afterwards"]]
    assert sorted(kinds, key=str) == [("display_data", None), ("stream", "stderr"), ("stream", "stdout")]


def test_a_stream_can_what_the_real_one_can(capfd):
    with capfd.disabled():
        name = sys.stdout.name
    with capfd.disabled(), Capture() as capture:
        sys.stdout.buffer.write(b"bytes\n")
        sys.stdout.reconfigure(line_buffering=False)
        assert (sys.stdout.name, sys.stdout.fileno(), sys.stderr.fileno()) == (name, 1, 2)
        sys.stdout.writelines(["one\n", "two\n"])
        subprocess.run(["echo", "from a child"], stdout=sys.stdout, check=True)
        with pytest.raises(TypeError):
            sys.stdout.write(b"bytes")
    assert sorted(capture.text().split("\n")) == ["bytes", "from a child", "one", "two"]


def test_a_handler_made_in_an_answer_goes_on_working_after_it(capsys):
    with Capture() as capture:
        handler = logging.StreamHandler()
        handler.emit(logging.makeLogRecord({"msg": "inside"}))
    handler.emit(logging.makeLogRecord({"msg": "after"}))
    assert capture.text() == "inside" and capsys.readouterr().err == "after\n"


def test_an_exception_inside_puts_the_streams_back():
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), Capture():
        print("hidden")
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before


def test_closed_descriptors_do_no_harm():
    script = (
        "import os; os.close(1); os.close(2)\n"
        "from course_utils.checks.state import Capture\n"
        "with Capture() as capture: print('kept')\n"
        "os._exit(0 if 'kept' in capture.text() else 1)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

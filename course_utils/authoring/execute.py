"""Run a solution notebook and keep its outputs (``run``), in the surroundings in which nbval runs it again
(``kernel_environment``).

Programs and kernels are processes that are forks of a Python which has imported already what they import (``context``,
``launch_kernel``). The imports take 2 s of processor time, a fork a few hundredths.
"""

import os
import re
from functools import cache
from multiprocessing import forkserver, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from unittest import mock

from nbformat import NotebookNode

from course_utils.authoring.files import normalised, read, write

ANSI_COLOURS = re.compile(r"\x1b\[[\d;]*m")  # IPython colours its tracebacks
CELL_SECONDS = 60  # also nbval's limit in pyproject.toml; a whole lesson takes under 10 s on two cores


def kernel_environment(scratch: Path) -> dict[str, str]:
    """What a kernel gets besides the caller's environment, so that its outputs depend on the notebook alone.

    Args:
        scratch: an empty folder for this kernel alone.

    Returns:
        - ``COURSE_UTILS_PROGRESS``: nobody else's progress shows up in a score card, and none is written to.
        - ``IPYTHONDIR``: no start-up files and no history of whoever runs it; kernels side by side share no database.
        - ``OMP_NUM_THREADS=1``: with more threads a float32 product adds up in another order, so that its last digits
          follow the machine.
        - ``MPLBACKEND``: figures go into the notebook even where the caller asked for another backend.
        - ``PYTHONWARNINGS``: Python's own choice of which warnings to show.
    """
    return {
        "COURSE_UTILS_PROGRESS": str(scratch / "progress.sqlite"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONWARNINGS": "",
    }


def executed(notebook: NotebookNode, folder: Path, cell_seconds: float = CELL_SECONDS) -> NotebookNode:
    """A copy of the notebook, run from the first cell to the last in a fresh kernel of this interpreter.

    Args:
        notebook: left as it is.
        folder: the kernel's working directory: the notebook's own folder, as in JupyterLab and in nbval.
        cell_seconds: the limit for each cell.

    Raises:
        ValueError: a cell raised and may not (``raises-exception``), wrote to stderr or took too long; a dead kernel.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError

    result, begun = normalised(notebook), list[str]()
    for cell in result.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        result,
        timeout=cell_seconds,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        on_cell_execute=lambda cell, cell_index: begun.append(f"Cell {cell_index + 1} (counted from 1, id {cell.id})"),
        resources={"metadata": {"path": str(folder)}},
    )
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        try:
            client.execute(env={**os.environ, **kernel_environment(Path(scratch))})
        except (CellExecutionError, CellControlSignal, DeadKernelError) as error:
            said = ANSI_COLOURS.sub("", str(error)).rstrip()
            raise ValueError(f"{begun[-1]} did not finish; the file has been left as it was: {said}") from error
    for cell in result.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise ValueError(f"The cell with id {cell.id} wrote to stderr, where places differ: {output.text}")
    return normalised(result)


def run(path: Path, cell_seconds: float = CELL_SECONDS) -> bool:
    """Runs a solution notebook in place, or leaves it where ``executed`` raises. Returns whether it changed."""
    before = path.read_bytes()
    write(executed(read(path), path.parent, cell_seconds), path)
    return path.read_bytes() != before


# torch imports its compiler with the first optimizer. What draws into notebooks is not here: it looks for its kernel.
PRELOADED = [
    "torch._dynamo",
    "course_utils.lesson",
    "course_utils.draw.memory",
    "course_utils.authoring.programs",  # which the forks of ``programs.printed`` begin in
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_agg",
]


@cache
def context() -> ForkServerContext:
    """Its processes are forks of one warm Python, which ends with the process that called this first."""
    warm = get_context("forkserver")
    warm.set_forkserver_preload(PRELOADED)
    with TemporaryDirectory() as scratch, mock.patch.dict(os.environ, kernel_environment(Path(scratch))):
        forkserver.ensure_running()
    return warm


class Kernel(ForkServerProcess):
    """A process with as much more of ``subprocess.Popen`` as Jupyter asks for."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.join(timeout)
        return self.exitcode

    def send_signal(self, number: int) -> None:
        if self.pid and self.exitcode is None:
            os.kill(self.pid, number)


def launch_kernel(cmd: list[str], **options: Any) -> Kernel:
    """In place of the function of this name in ``jupyter_client.launcher``."""
    context()
    is_there, started = context().Pipe(duplex=False)
    environment = dict(options.get("env") or os.environ)
    folder = str(options.get("cwd") or Path.cwd())
    kernel = Kernel(target=_kernel, args=(started, cmd[cmd.index("-f") :], environment, folder))
    kernel.start()
    is_there.recv()  # by now it leads a group of its own, to which Jupyter sends its signals
    return kernel


def _kernel(started: Connection, arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1), os.dup2(nowhere, 2)  # what a kernel says beside its cells
    started.send(None)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    Thread(target=_end_with_the_caller, daemon=True).start()
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance(arguments)


def _end_with_the_caller() -> None:
    # ipykernel looks whether the forking process is there, and that one waits for its last kernel.
    parent_process().join()  # type: ignore[union-attr]  # whoever called ``launch_kernel``
    os._exit(1)

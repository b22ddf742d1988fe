"""Run a solution notebook and keep its outputs (``run``), in the surroundings in which nbval runs it again
(``kernel_environment``).
"""

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

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

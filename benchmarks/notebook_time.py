"""What a notebook costs as a test: nbval's wall time for each, beside the floor, and the slowest cells.

The floor is what no notebook can go below: start a kernel, import torch, stop the kernel. What pytest and nbval add to
it is shown by a notebook that does only that, outside the course; the first cell of a lesson bears besides what the
course's own conftest.py imports. Rounds are interleaved: floor, every notebook, floor, every notebook. Run with
``python -m benchmarks.notebook_time``; names on the command line choose notebooks.
"""

import argparse
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

REPOSITORY = Path(__file__).resolve().parents[1]
SECONDS = 60.0  # target: a learner's whole notebook, on a processor
OPTIONS = ("-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", "--numprocesses=0")


@dataclass
class Run:
    """One run of one notebook under nbval.

    Attributes:
        seconds: wall time of the whole command.
        passed: whether every cell passed.
        cells: seconds of each code cell, by the cell's id; the first one's hold the start of the kernel.
    """

    seconds: float
    passed: bool
    cells: dict[str, float]


def kernel(code: str) -> float:
    """Seconds to start a kernel of this interpreter, run ``code`` in it, and stop it."""
    from jupyter_client.manager import KernelManager
    from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

    begin = time.perf_counter()
    # By this name the kernel is this very interpreter, whatever is installed under "python3".
    manager = KernelManager(kernel_name=CURRENT_ENV_KERNEL_NAME, kernel_spec_manager=NbvalKernelspecManager())
    manager.start_kernel(stderr=subprocess.DEVNULL)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive(code, timeout=60, output_hook=lambda message: None)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"{code!r} failed in the kernel: {reply['content'].get('evalue')}")
    return time.perf_counter() - begin


def nbval(path: Path, root: Path = REPOSITORY) -> Run:
    """Runs one notebook with pytest and nbval, in one process, with the settings in ``root``."""
    ids = [cell.get("id", str(i)) for i, cell in enumerate(_code_cells(path))]
    with TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", *OPTIONS, f"--junitxml={report}", f"--rootdir={root}", str(path)]
        begin = time.perf_counter()
        status = subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL).returncode
        seconds = time.perf_counter() - begin
        cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
        times = {int(case.get("name", "").removeprefix("Cell ")): float(case.get("time", 0)) for case in cases}
    return Run(seconds, status == 0, {ids[i]: seconds for i, seconds in times.items()})


def slowest(runs: Sequence[Run], count: int) -> list[tuple[str, float]]:
    """The cells with the greatest medians over the runs, with these."""
    medians = {id: statistics.median(run.cells.get(id, 0.0) for run in runs) for id in runs[0].cells}
    return sorted(medians.items(), key=lambda item: -item[1])[:count]


def notebook_of(code: str, path: Path) -> Path:
    """Writes a notebook of one cell."""
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code, id="cell")]), path)
    return path


def _code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only notebooks with one of these in their path")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=3, help="how many of the slowest cells to name")
    options = parser.parse_args(arguments)
    found = sorted((REPOSITORY / "notebooks").glob("*.ipynb")) + sorted(
        (REPOSITORY / "notebooks" / "solutions").glob("*.ipynb")
    )
    paths = [path for path in found if not options.names or any(name in str(path) for name in options.names)]
    floors: list[float] = []
    empty: list[Run] = []
    runs: dict[Path, list[Run]] = {path: [] for path in paths}
    with TemporaryDirectory() as scratch:
        imports_torch = notebook_of("import torch", Path(scratch) / "imports_torch.ipynb")
        for _ in range(options.rounds):
            floors.append(kernel("import torch"))
            empty.append(nbval(imports_torch))
            for path in paths:
                runs[path].append(nbval(path))
    floor = statistics.median(floors)
    print(f"Target: under {SECONDS:.0f} s each; medians of {options.rounds} rounds")
    print(f"{'notebook':38}{'s':>7}{'over floor':>12}   slowest cells, s")
    print(f"{'floor: kernel, import torch':38}{floor:7.2f}{1:11.2f}x")
    rows = [("pytest on a cell with that import", empty), *((_name(path), runs[path]) for path in paths)]
    missed = 0
    for name, of_one in rows:
        seconds = statistics.median(run.seconds for run in of_one)
        failed = not all(run.passed for run in of_one)
        missed += failed or seconds >= SECONDS
        cells = ", ".join(f"{id} {of_cell:.2f}" for id, of_cell in slowest(of_one, options.cells))
        verdict = "  failed" if failed else "  missed" if seconds >= SECONDS else ""
        print(f"{name:38}{seconds:7.2f}{seconds / floor:11.2f}x   {cells}{verdict}")
    return int(missed > 0)


def _name(path: Path) -> str:
    return path.relative_to(REPOSITORY / "notebooks").as_posix()


if __name__ == "__main__":
    sys.exit(main())

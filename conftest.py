"""How pytest treats this repository: package tests as usual, notebooks through nbval, each in its kernel.

nbval runs a notebook's code cells as test items in one kernel. What is added here, for every notebook: a progress
file and other surroundings of its own (``kernel_environment``), a dead kernel is noticed at once, nothing may reach
stderr. For learner notebooks (``notebooks/*.ipynb``) besides: nothing raises, which is nbval's own rule, and every
check cell says "not attempted" and scores 0.

A run takes in what ``--tier`` says: ``check`` leaves out what starts kernels or sandboxes or takes a second (``slow``),
``test`` is all that a push needs, ``nightly`` has the repetitions and long sweeps besides (``nightly``). In the first
two a kernel is a fork of a Python that has imported torch (``course_utils/authoring/execute.py``), and a learner
notebook runs the cells that its solution does not (``tests/slices.py``). Nightly each kernel is started as a learner's
is, and runs every cell, and so do the notebooks that go on from the lessons (``notebooks/further``), which by day are
run where they are named.

nbval compares, for every cell with an execution count and without the tag ``nbval-ignore-output``, each kind of output
as text, stdout and a card's HTML to the letter; not figures' pixels, tracebacks, counts and how kinds are interleaved.
"""

import json
import os
import queue
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import nbformat
import pytest
import zmq
from jupyter_client.manager import KernelManager
from nbval.plugin import IPyNbCell, IPyNbFile

from course_utils.authoring import execute
from course_utils.authoring.execute import kernel_environment

POLL_SECONDS = 0.5
OUTPUT_SECONDS = 30  # nbval waits 5 s for outputs that lag behind a cell, too few on a machine with other work to do
TIERS = {"check": ("slow", "nightly"), "test": ("nightly",), "nightly": ()}  # what each leaves out
DURATIONS = Path(__file__).with_name("tests") / "durations.json"
_scratch = pytest.StashKey[Path]()
_until_the_end = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default="test", help="how much is run: check, test or nightly")
    parser.addoption("--record-durations", action="store_true", help=f"write each file's seconds to {DURATIONS.name}")


def pytest_configure(config: pytest.Config) -> None:
    stack = config.stash[_until_the_end] = ExitStack()
    config.stash[_scratch] = Path(
        stack.enter_context(TemporaryDirectory(prefix="notebooks-", ignore_cleanup_errors=True))
    )
    if not hasattr(config, "workerinput"):
        _fill_font_cache()
    if _kernels_are_forked(config):
        stack.enter_context(
            mock.patch("jupyter_client.provisioning.local_provisioner.launch_kernel", execute.launch_kernel)
        )


def _kernels_are_forked(config: pytest.Config) -> bool:
    # A kernel that is started as a learner's is takes 3 s of processor time, most of it for what it imports.
    return config.option.tier != "nightly" and sys.platform == "linux"


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    # The workers inherit it, so it is there before they import torch. Workers that each start a thread for every core
    # wait for one another: the proofs of one lesson took 84 s so on two cores, and 42 s with this.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_until_the_end].close()


def _fill_font_cache() -> None:
    # On a fresh machine the first figure makes matplotlib list the fonts, and say so on stderr when that takes long.
    # Once, here, it disturbs no notebook, and kernels side by side do not all do it.
    import matplotlib

    if not list(Path(matplotlib.get_cachedir()).glob("fontlist-*.json")):
        import matplotlib.font_manager


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many as there are cores, and for the whole suite one more: a third of their time workers wait there, for
    browsers, sandboxes and disks. In a part of it that one takes longer to start than it saves.

    None where the command line names one file: starting workers takes longer than they save.
    """
    files = {argument.split("::")[0] for argument in config.args}
    if len(files) == 1 and Path(files.pop()).is_file():
        return 0
    return (os.cpu_count() or 1) + (config.args_source is config.ArgsSource.TESTPATHS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if any(map(item.get_closest_marker, TIERS[config.option.tier]))]
    if config.option.tier != "nightly":
        left_out += _cells_that_the_solutions_run(config, items)
        if not any("further" in argument for argument in config.args):
            left_out += [item for item in items if item.path.parent.name == "further"]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    # A file is one worker's. What ends the run if it fails comes first, then long ones, or the last worker runs alone
    # while the others have nothing left.
    seconds = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
    sizes = Counter(item.path for item in items)  # of a file that was not timed yet: a second for ten tests
    items.sort(
        key=lambda item: (
            item.path.name != "test_style.py",
            -seconds.get(_name(item.config, item.path), sizes[item.path] / 10),
        )
    )
    needs_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if needs_gpu:
        import torch

        if not torch.accelerator.is_available():
            for item in needs_gpu:
                item.add_marker(pytest.mark.skip(reason="no accelerator on this machine"))


def _cells_that_the_solutions_run(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    from tests.slices import cells_to_run

    cells = [item for item in items if isinstance(item, IPyNbCell) and _is_learners(item)]
    wanted: dict[Path, set[int]] = {}
    for item in cells:
        solution = item.path.parent / "solutions" / item.path.name
        if item.path not in wanted and solution.exists():
            wanted[item.path] = cells_to_run(*(nbformat.read(path, as_version=4) for path in (item.path, solution)))
    return [item for item in cells if item.path in wanted and item.cell_num not in wanted[item.path]]


def _is_learners(item: pytest.Item) -> bool:
    return item.path.parent == item.config.rootpath / "notebooks"


def _name(config: pytest.Config, path: Path) -> str:
    return path.relative_to(config.rootpath).as_posix()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.record_durations:
        seconds: Counter[str] = Counter()
        for report in (report for reports in terminalreporter.stats.values() for report in reports):
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
        rounded = {name: round(count, 1) for name, count in sorted(seconds.items())}
        DURATIONS.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    # The first cell of a notebook starts its kernel, which inherits the environment of this moment.
    if not isinstance(item, IPyNbCell) or item.parent.kernel is not None:
        return (yield)
    root = item.config.stash[_scratch]
    scratch = root / str(len(list(root.iterdir())))
    scratch.mkdir()
    # Files of its own, not ports: between being chosen and being used, a port may be taken by another kernel, and one
    # without its port for outputs neither ends nor answers.
    channels = {"transport": "ipc", "ip": str(scratch / "kernel")} if zmq.has("ipc") else {}
    manager = mock.patch("nbval.kernel.KernelManager", partial(KernelManager, **channels))
    with manager, mock.patch.dict(os.environ, kernel_environment(scratch)):
        result = yield
    _notice_death(item.parent)
    return result


def _notice_death(notebook: IPyNbFile) -> None:
    # nbval waits for a cell's whole time limit even where the kernel is gone.
    kernel = notebook.kernel

    def await_reply(msg_id: str, timeout: float | None = None) -> None:
        deadline = time.monotonic() + timeout if timeout is not None else float("inf")
        while True:
            try:
                wait = min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))
                message = kernel.get_message(stream="shell", timeout=wait)
            except queue.Empty:
                if not kernel.is_alive():
                    notebook.timed_out = True  # so that nbval expects the cells after it to fail
                    raise RuntimeError("The kernel died in this cell: it was killed, or the code left it.") from None
                if time.monotonic() >= deadline:
                    raise
                continue
            if message["parent_header"].get("msg_id") == msg_id:
                return

    kernel.await_reply = await_reply


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if not isinstance(item, IPyNbCell):
        return (yield)
    place = f"{item.path}, cell with id {item.cell.get('id')}, line 1: {item.cell.source.splitlines()[:1]}"
    item.add_report_section("call", "notebook cell", place)
    item.output_timeout = OUTPUT_SECONDS
    result = yield
    outputs = item.test_outputs or []
    for output in outputs:
        if output.output_type == "stream" and output.name == "stderr":
            item.raise_cell_error("The cell wrote to stderr, which costs a graded cell its points.", output.text)
    if _is_learners(item) and item.cell.metadata.get("nbgrader", {}).get("grade"):
        _require_not_attempted(item, outputs)
    return result


def _require_not_attempted(item: IPyNbCell, outputs: list) -> None:
    results = [output.data for output in outputs if output.output_type == "execute_result"]
    if not results or results[-1].get("text/plain") != "0.0" or "not attempted" not in results[-1].get("text/html", ""):
        shown = results[-1].get("text/plain") if results else "nothing"
        item.raise_cell_error(
            "A check on an untouched learner notebook must score 0.0 and say 'not attempted'.", f"It shows {shown}."
        )

"""Scripts that leak, each in another way, and scripts that only look as if: what a report must and must not say.

In a script that leaks, ``# makes`` ends the lines that make what stays, and ``# keeps: name`` the line that keeps it.
"""

import gc
import re
from pathlib import Path

import pytest

from course_utils.base.text import format_bytes
from course_utils.leaks.nodes import NODE_BYTES
from tests.leaks.allocator import bytes_per_call
from tests.leaks.drive import SCRIPTS, watched

pytestmark = pytest.mark.slow

INNOCENT = sorted(path for path in SCRIPTS.glob("ok_*.py"))
NODES = sorted(path for path in SCRIPTS.glob("nodes_*.py"))
LEAKING = sorted(path for path in SCRIPTS.glob("*.py") if path not in INNOCENT + NODES)


def lines(path: Path, mark: str) -> list[int]:
    text = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(text, 1) if mark in line]


def name(path: Path) -> str:
    (found,) = re.findall(r"# keeps: ?(.*?)(?:  # |$)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found.partition(" # ")[0]


def some_by_day(paths):
    """Every eighth script at each push, all of them at night: the others find the same things by the same ways."""
    return [pytest.param(path, marks=pytest.mark.nightly if at % 8 else ()) for at, path in enumerate(paths)]


def test_there_are_enough_scripts():
    assert len(LEAKING) >= 16
    assert len(INNOCENT) >= 8


@pytest.mark.parametrize("path", some_by_day(LEAKING), ids=lambda path: path.stem)
def test_the_line_and_the_holder_are_named(path):
    report = watched(path)
    assert report.verdict == "growing", str(report)
    assert len(report.findings) == 1, str(report)
    (found,) = report.findings
    assert found.line is not None and found.line.line in lines(path, "# keeps:"), str(report)
    assert Path(found.line.file) == path
    wanted = name(path)
    assert found.holder.name == wanted or (not wanted and found.holder.kind == "building"), str(report)
    assert found.made[0].site.line in lines(path, "# makes"), str(report)
    assert sum(made.bytes_per_call for made in found.made) == pytest.approx(found.rate.nbytes, abs=len(found.made))


@pytest.mark.parametrize("path", some_by_day(INNOCENT), ids=lambda path: path.stem)
def test_what_only_looks_like_a_leak_is_none(path):
    report = watched(path)
    assert report.findings == (), str(report)
    assert report.verdict in ("steady", "bounded")


@pytest.mark.parametrize(("path", "nodes"), list(zip(NODES, (10, 5), strict=True)))
def test_a_graph_that_grows_by_nodes_alone_is_told_of(path, nodes):
    report = watched(path)
    assert report.verdict == "growing", str(report)
    (found,) = report.findings
    assert report.chains == (found,) and found.rate.nbytes == 0
    assert (found.holder.name, found.nodes) == (name(path), nodes)
    assert found.line is not None and [found.line.line] == lines(path, "# keeps:")
    (instead,) = re.findall(r"# instead: (.*)", path.read_text(encoding="utf-8"))
    for text in (str(report), report._repr_html_()):
        assert f"grows by {nodes} nodes a call" in text and instead in text
        assert f"{format_bytes(NODE_BYTES * nodes)} of host memory" in text
        assert "total += loss adds numbers" in text and "03_detach.ipynb" in text


@pytest.mark.nightly
# PyTorch's profiler, which is asked here, sees the thread that started it alone.
@pytest.mark.parametrize(
    "path", [path for path in LEAKING if not path.stem.startswith("thread_")], ids=lambda path: path.stem
)
def test_bytes_a_call_are_those_of_the_allocator(path):
    report = watched(path)
    gc.collect()
    # Of a cycle the collector takes back some when it happens to run.
    rises = report.findings[0].grown.times > 1 or report.findings[0].holder.kind == "cycle"
    parts = [part for part in (report.training, report.evaluation) if part.rate is not None]
    judged = sum(part.calls for part in (report.training, report.evaluation) if part.verdict != "too few calls")
    said = sum(part.rate.nbytes * (1 if rises else part.calls / judged) for part in parts)
    # Eight bytes for each number that autograd boxes past the dispatcher.
    assert said == pytest.approx(bytes_per_call(path, while_it_rises=rises), rel=0.01, abs=16)

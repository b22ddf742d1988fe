"""Scripts that leak, each in another way, and scripts that only look as if: what a report must and must not say.

They stand in ``scripts.toml``. In one that leaks, ``# makes`` ends the lines that make what stays, and
``# keeps: name`` the line that keeps it.
"""

import gc
import re
from pathlib import Path

import pytest

from course_utils.base.text import format_bytes
from course_utils.leaks.nodes import NODE_BYTES
from tests.leaks.allocator import bytes_per_call
from tests.leaks.drive import SCRIPTS, marked, watched, written

pytestmark = pytest.mark.slow

INNOCENT = [name for name in SCRIPTS if name.startswith("ok_")]
NODES = {"nodes_moving_average": 10, "nodes_total_loss": 5}
LEAKING = [name for name in SCRIPTS if name not in (*INNOCENT, *NODES)]


def keeps(name: str) -> str:
    (found,) = re.findall(r"# keeps: ?(.*?)(?:  # |$)", SCRIPTS[name], flags=re.MULTILINE)
    return found.partition(" # ")[0]


def some_by_day(names):
    """Every sixteenth script at each push, all of them at night: the others find the same things by the same ways."""
    return [pytest.param(name, marks=pytest.mark.nightly if at % 16 else ()) for at, name in enumerate(names)]


@pytest.mark.parametrize("name", some_by_day(LEAKING))
def test_the_line_and_the_holder_are_named(name, tmp_path):
    path = written(name, tmp_path)
    report = watched(path)
    assert report.verdict == "growing", str(report)
    assert len(report.findings) == 1, str(report)
    (found,) = report.findings
    assert found.line is not None and found.line.line in marked(path, "keeps"), str(report)
    assert Path(found.line.file) == path
    wanted = keeps(name)
    assert found.holder.name == wanted or (not wanted and found.holder.kind == "building"), str(report)
    assert found.made[0].site.line in marked(path, "makes"), str(report)
    assert sum(made.nbytes for made in found.made) == pytest.approx(found.rate.nbytes, abs=len(found.made))


@pytest.mark.parametrize("name", some_by_day(INNOCENT))
def test_what_only_looks_like_a_leak_is_none(name, tmp_path):
    report = watched(written(name, tmp_path))
    assert report.findings == (), str(report)
    assert report.verdict in ("steady", "bounded")


@pytest.mark.parametrize(("name", "nodes"), NODES.items())
def test_a_graph_that_grows_by_nodes_alone_is_told_of(name, nodes, tmp_path):
    path = written(name, tmp_path)
    report = watched(path)
    assert report.verdict == "growing", str(report)
    (found,) = report.findings
    assert found.rate.nbytes == 0
    assert (found.holder.name, found.nodes) == (keeps(name), nodes)
    assert found.line is not None and [found.line.line] == marked(path, "keeps")
    (instead,) = re.findall(r"# instead: (.*)", SCRIPTS[name])
    for text in (str(report), report._repr_html_()):
        assert f"grows by {nodes} nodes a call" in text and instead in text
        assert f"{format_bytes(NODE_BYTES * nodes)} of host memory" in text
        assert "total += loss adds numbers" in text and "03_detach.ipynb" in text


@pytest.mark.nightly
# PyTorch's profiler, which is asked here, sees the thread that started it alone.
@pytest.mark.parametrize("name", [name for name in LEAKING if not name.startswith("thread_")])
def test_bytes_a_call_are_those_of_the_allocator(name, tmp_path):
    path = written(name, tmp_path)
    report = watched(path)
    gc.collect()
    # Of a cycle the collector takes back some when it happens to run.
    rises = report.findings[0].grown.times > 1 or report.findings[0].holder.kind == "cycle"
    parts = [part for part in (report.training, report.evaluation) if part.rate is not None]
    judged = sum(part.calls for part in (report.training, report.evaluation) if part.verdict != "too few calls")
    said = sum(part.rate.nbytes * (1 if rises else part.calls / judged) for part in parts)
    # Eight bytes for each number that autograd boxes past the dispatcher.
    assert said == pytest.approx(bytes_per_call(path, while_it_rises=rises), rel=0.01, abs=16)

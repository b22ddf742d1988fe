"""The benchmarks run, on the smallest setting; what they measure is for ``make bench`` to say."""

import os

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import check_time, import_time, notebook_time
from course_utils import Lesson

pytestmark = pytest.mark.slow


def test_every_benchmark_is_found_and_the_sweep_is_none():
    names = benchmarks.names()
    assert {"check_time", "import_time", "notebook_time", "memory_overhead"} <= set(names)
    assert "memory_sweep" not in names and "__main__" not in names


def test_an_unknown_benchmark_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        benchmarks.main(["chek_time"])
    assert "no benchmark is called chek_time; there are check_time, " in capsys.readouterr().err


def test_check_time_measures_every_exercise_of_a_lesson():
    rows = check_time.measure("detach", calls=1)
    assert [row.exercise for row in rows] == list(Lesson("detach").exercises)
    assert all(row.first > 0 and row.median == row.slowest > 0 for row in rows)


@pytest.mark.nightly
def test_check_time_passes_on_why_a_lesson_cannot_be_measured():
    with pytest.raises(RuntimeError, match="There is no lesson called 'detatch'"):
        check_time.in_fresh_process("detatch", calls=1)


def test_an_exercise_reaches_its_target_only_with_first_call_and_median():
    rows = [check_time.Row("", "", first, median, median) for first, median in ((0.9, 0.14), (1.1, 0.1), (0.1, 0.16))]
    assert [row.reached for row in rows] == [True, False, False]


def test_import_time_tells_two_imports_apart():
    times = import_time.measure("math", "unittest.mock", rounds=1)
    assert times.added > times.base >= 0
    assert times.added_processor > times.base_processor >= 0
    assert times.ratio > 1


@pytest.mark.nightly
def test_notebook_time_measures_a_notebook_and_each_of_its_cells(tmp_path):
    run = notebook_time.nbval(notebook_time.notebook_of("import math", tmp_path / "small.ipynb"), root=tmp_path)
    assert run.passed
    assert list(run.cells) == ["cell"]
    assert 0 < run.cells["cell"] < run.seconds


@pytest.mark.nightly
def test_notebook_time_reports_a_notebook_that_fails(tmp_path):
    run = notebook_time.nbval(notebook_time.notebook_of("1 / 0", tmp_path / "failing.ipynb"), root=tmp_path)
    assert not run.passed


@pytest.mark.nightly
def test_notebook_time_starts_a_kernel_and_notices_that_its_code_fails(monkeypatch, tmp_path):
    monkeypatch.setitem(os.environ, "IPYTHONDIR", str(tmp_path))
    assert notebook_time.kernel("import math") > 0
    with pytest.raises(RuntimeError, match="division by zero"):
        notebook_time.kernel("1 / 0")


def test_the_slowest_cells_are_named_by_their_medians():
    runs = [notebook_time.Run(9, True, {"a": a, "b": 2.0, "c": 0.5}) for a in (1.0, 9.0, 1.1)]
    assert notebook_time.slowest(runs, 2) == [("b", 2.0), ("a", 1.1)]

"""The benchmarks run, on the smallest setting; what they measure is for ``python -m benchmarks`` to say."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import check_time, import_time
from course_utils.catalogue import LESSONS

pytestmark = pytest.mark.slow


def test_every_benchmark_is_found_and_the_sweep_is_none():
    names = benchmarks.names()
    assert {"check_time", "import_time", "memory_overhead"} <= set(names)
    assert "memory_sweep" not in names and "__main__" not in names


def test_an_unknown_benchmark_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        benchmarks.main(["chek_time"])
    assert "no benchmark is called chek_time; there are check_time, " in capsys.readouterr().err


FIRST_CHECKS = """
import json
from benchmarks.check_time import LOADERS, measure
from course_utils.catalogue import LESSONS
rows = measure([info.name for info in LESSONS], again=0, leave_out=LOADERS)
print(json.dumps({row.exercise: row.loaded for row in rows}))
"""


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each answer is judged in a fork")
def test_a_process_s_first_check_loads_no_compiler():
    run = subprocess.run([sys.executable, "-c", FIRST_CHECKS], capture_output=True, text=True, check=True)
    loaded = json.loads(run.stdout.splitlines()[-1])
    assert {*loaded, *check_time.LOADERS} == {name for info in LESSONS for name in info.exercises}
    assert {exercise: modules for exercise, modules in loaded.items() if modules} == {}


def test_an_exercise_reaches_its_target_with_both_answers_and_later_ones_and_loads_what_it_is_said_to():
    times = (0.2, 0.1, 0.2), (0.4, 0.1, 0.2), (0.2, 0.2, 0.2), (0.2, 0.1, 0.4)
    assert [check_time.Row("", "", *row, []).reached for row in times] == [True, False, False, False]
    loads = [("double", ["sympy"]), ("freeze", ["sympy"]), ("freeze", [])]
    assert [check_time.Row("", name, *times[0], loaded).reached for name, loaded in loads] == [False, True, False]


def test_import_time_tells_two_imports_apart():
    times = import_time.measure("math", "unittest.mock", rounds=1)
    assert times.added > times.base >= 0
    assert times.added_processor > times.base_processor >= 0

"""Forks of a warm Python: what they are given, how they end, and that none outlives whoever asked for it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_utils.authoring import warm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere kernels are started as they are"),
]


def of_a_fork():
    return os.getpid(), os.getpgid(0), sorted({"torch", "matplotlib.pyplot"} & set(sys.modules))


def wait():
    time.sleep(60)


def leave():
    os._exit(3)


def say():
    print("to stdout", flush=True)
    os.write(2, b"to stderr\n")


def is_there(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # it has ended, and whoever should wait for it has not yet


def test_a_fork_is_a_process_and_a_group_of_its_own_with_torch_and_without_a_figure():
    first, second = warm.fork(of_a_fork), warm.fork(of_a_fork)
    assert first.pid != second.pid
    for process in (first, second):
        assert process.result(60) == (process.pid, process.pid, ["torch"])
        assert process.wait(60) == process.poll() == 0


def test_one_that_is_killed_or_leaves_is_noticed():
    process = warm.fork(wait)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    with pytest.raises(EOFError):
        warm.fork(leave).result(60)


def test_one_that_takes_too_long_is_killed():
    process = warm.fork(wait)
    with pytest.raises(TimeoutError, match="longer than 0 s"):
        process.result(0.01)
    assert process.wait(60) == 0


def test_its_output_goes_where_it_is_told(tmp_path):
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        warm.fork(say, outputs=(out.fileno(), err.fileno())).result(60)
    assert (tmp_path / "out").read_text() == "to stdout\n" and (tmp_path / "err").read_text() == "to stderr\n"


def test_the_warm_python_ends_with_the_process_that_asked_for_it():
    code = """
import os
from course_utils.authoring import warm
warm.PRELOADED = ()
print(warm.fork(os.getppid).result(60), flush=True)
"""
    environment = {name: value for name, value in os.environ.items() if name != warm.VARIABLE}
    for end in ("", "os._exit(0)"):  # and where nothing is tidied up
        done = subprocess.run([sys.executable, "-c", code + end], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        deadline = time.monotonic() + 60
        while is_there(int(done.stdout)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not is_there(int(done.stdout))

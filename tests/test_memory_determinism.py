"""The stream of events is the same in every process, with one thread and with two."""

import hashlib
import subprocess
import sys

import pytest
import torch

from course_utils.memory import MemoryTracker
from tests.memory_workloads import SECTION_4

pytestmark = pytest.mark.slow


def digest(threads: int) -> str:
    """One hash of every event of every workload, with so many threads."""
    torch.set_num_threads(threads)
    seen = hashlib.sha256()
    for make in SECTION_4.values():
        work = make("cpu")
        with MemoryTracker(*work.known) as mem:
            kept = work.run(mem.phase)
        del kept
        for event in mem.events:
            plain = (event.t, event.op, event.phase, event.delta, event.current, event.storage, event.in_backward)
            seen.update(repr(plain).encode())
    return seen.hexdigest()


@pytest.mark.nightly
def test_events_are_equal_in_three_processes_and_with_one_and_two_threads():
    code = "import sys; from tests.test_memory_determinism import digest; print(digest(int(sys.argv[1])))"
    runs = [
        subprocess.Popen([sys.executable, "-c", code, threads], stdout=subprocess.PIPE, text=True) for threads in "121"
    ]
    outputs = [run.communicate()[0].strip() for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(set(outputs)) == 1 and len(outputs[0]) == 64

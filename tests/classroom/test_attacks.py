"""What wants points without an answer earns none unseen, and what wants to stop the grader costs itself alone."""

import os
import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.results import Report
from tests.classroom.attacks import ATTACKS, DETACH, LOADS, Attack
from tests.classroom.handed_in import NEEDS_SANDBOX, Notebook, released, solutions

pytestmark = [*NEEDS_SANDBOX]
# Seconds are those that are used; what will not end takes all of them.
LIMITS = Limits(wall_seconds=60.0, check_seconds=10.0)
IMPATIENT = Limits(wall_seconds=60.0, check_seconds=1.0, memory_bytes=2**29)
# Two processes at their limit, the folders that can be written in, and what the machine's other work may take.
MOST_BYTES = 2 * IMPATIENT.memory_bytes + 4 * IMPATIENT.file_bytes + 2**28
LARGEST_NOTEBOOK = 8 * 2**20

NEXT = Notebook().solve("snapshot", "stop_gradient_round")
PLAIN = Attack("a solved notebook comes after them", lambda notebook: None, {}, tuple(solutions()))


def in_groups(groups):
    """Every row as a parameter; a push runs the first of each group and each tenth, the night all."""
    return [
        pytest.param(row, id=f"{group}: {row.name}", marks=[pytest.mark.nightly] if place % 10 else [])
        for group, rows in groups.items()
        for place, row in enumerate(rows)
    ]


def result(report, name):
    """The result of an exercise, by the name of its answer cell; the teacher's own check goes by its cell's name."""
    topic = report.assignment.partition("_")[2]
    (found,) = [r for r in report.exercises if r.exercise in (name, f"{topic}-{name}-check")]
    return found


def looked_at(report, name):
    """Whether nothing is entered for an exercise until the teacher has looked, and the report says at what."""
    found = result(report, name)
    return found.outcome == "review by hand" and found.earned == 0 and bool(report.reviews)


def suffered(report, names):
    """The right answers that lost points although nothing was seen, with what the report says of them."""
    results = {name: result(report, name) for name in names}
    lost = {name: found.text for name, found in results.items() if found.earned != found.possible}
    return {name: text for name, text in lost.items() if not looked_at(report, name)}


@pytest.mark.parametrize("attack", in_groups({group: [*rows, PLAIN] for group, rows in ATTACKS.items()}))
def test_nothing_is_earned_unseen(grader, attack):
    report = grader.grade(attack.released(), attack.submitted(), student="eve", assignment=attack.assignment)
    results = {name: result(report, name) for name in attack.cheated}
    earned = {name: found.earned for name, found in results.items() if found.earned > attack.cheated[name]}
    assert {name: points for name, points in earned.items() if not looked_at(report, name)} == {}
    assert suffered(report, attack.right) == {}
    if attack is PLAIN:
        assert report.reviews == ()


@pytest.mark.parametrize("load", in_groups(LOADS))
def test_what_wants_to_stop_the_grader_costs_itself_alone(grader, load):
    grader.limits = IMPATIENT
    with peak_of_the_sandbox() as peak:
        report = grader.grade(released(), load.submitted(), student="eve", assignment=DETACH)
    assert Report.from_json(report.to_json().encode().decode()) == report
    notebook_bytes, most_bytes = len(report.notebook.encode()), max(peak)
    assert notebook_bytes < LARGEST_NOTEBOOK and most_bytes < MOST_BYTES
    assert suffered(report, load.right) == {}
    after = grader.grade(released(), NEXT.bytes(), student="ada", assignment=DETACH)
    assert (after.earned, after.reviews) == (3, ())


@contextmanager
def peak_of_the_sandbox():
    """Collects, while it lasts, the bytes that this process's children take beyond what they began with."""
    warm, shared, seen, over = max(map(own_bytes, children()), default=0), shared_bytes(), [0], threading.Event()

    def watch():
        while not over.wait(0.05):
            own = sum(max(0, own_bytes(pid) - warm) for pid in children())
            seen.append(own + shared_bytes() - shared)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def children():
    """Every process below this one."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            parent = _field(entry, "PPid")
            below.setdefault(parent, []).append(int(entry))
    found = list(below.get(os.getpid(), ()))
    for pid in found:
        found.extend(below.get(pid, ()))
    return found


def own_bytes(pid):
    """Memory of a process that is no file and not shared by name; after a fork, what it still shares counts too."""
    return 1024 * _field(pid, "RssAnon")


def shared_bytes():
    """Shared memory and files in memory, of the whole machine: no process needs to have mapped them."""
    return 1024 * int(re.search(r"^Shmem:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)[1])


def _field(pid, name):
    try:
        found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:  # it has just ended
        return 0
    return int(found[1]) if found else 0

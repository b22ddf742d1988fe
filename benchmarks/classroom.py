"""What grading a class takes: seconds a submission, ratio to ``nbgrader autograde``, memory, two workers over TCP.

    python -m benchmarks.classroom                                the small setting, some minutes
    python -m benchmarks.classroom --sizes 20 100 500 --plain 20  what docs/classroom.md quotes, half an hour

Submissions are real: lesson 03 as it is released today, with the course's own answers, half of them or none, other
right ones and wrong ones, one after the other. nbgrader and this take turns on the same ones in the same run. "a
submission" is the time between two results, read from when their files were written, the same for both: from the first
to the last, divided by their number less one. It leaves the start out, so whole runs, start included, stand beside it,
per submission and with their sizes.
Memory is the proportional set size of the command with all its children, so that what forks share counts once; over
TCP it is the command's alone, since the workers are nobody's children. The sandbox is on. Run it on an idle machine:
what else runs falls on both, but not evenly.

Where ``otter`` is on the PATH (otter-grader in an environment that also sees this one's packages), its ``otter run``
grades a few of the same submissions in the same run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import otter

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sys.executable).parent
ASSIGNMENT = "03_detach"
TARGET_RATIO = 10.0  # throughput, sandbox on, against nbgrader's own
TARGET_BYTES = 4 * 2**30  # the whole run
TARGET_FLAT = 1.5  # a submission in the largest class against one in the smaller ones
POLL_SECONDS = 0.25
NOTEBOOKS, REPORTS = "autograded/*/*/*.ipynb", "reports/*/*/report.json"


@dataclass(frozen=True)
class Run:
    """One command over a class.

    Attributes:
        size: submissions.
        seconds: wall time of the whole command.
        peak_bytes: proportional set size of the command and its children, at its greatest.
        finished: when each result was written, in seconds, in order; empty where that was not looked at.
    """

    size: int
    seconds: float
    peak_bytes: int
    finished: tuple[float, ...] = ()


def each(runs: Sequence[Run]) -> float | None:
    """Seconds between two results in the largest run; None where there are not two."""
    finished = max(runs, key=lambda run: run.size).finished
    if len(finished) < 2 or finished[-1] <= finished[0]:
        return None
    return (finished[-1] - finished[0]) / (len(finished) - 1)


def submissions(count: int) -> Iterator[bytes]:
    """Notebooks as students hand them in, of the lesson that ``init`` and ``release`` give them."""
    from tests.classroom.handed_in import Notebook, solutions
    from tests.classroom.the_class import notebook_with, shared_out
    from tests.lessons.answers import right_answers, wrong_answers

    half = list(solutions(ASSIGNMENT, today=True))[::2]
    honest = [Notebook(ASSIGNMENT, today=True).solve(*own) for own in ((), half)] + [Notebook(ASSIGNMENT, today=True)]
    for answers in (right_answers("detach"), wrong_answers("detach")):
        honest += [notebook_with(ASSIGNMENT, chosen, today=True) for chosen in shared_out(answers, 4)]
    contents = [notebook.bytes() for notebook in honest]
    for number in range(count):
        yield contents[number % len(contents)]


def fill(course: Path, count: int, first: int = 0) -> None:
    """Hands in so many submissions."""
    for number, content in enumerate(submissions(first + count)):
        if number >= first:
            folder = course / "submitted" / f"student{number:04d}" / ASSIGNMENT
            folder.mkdir(parents=True)
            (folder / f"{ASSIGNMENT}.ipynb").write_bytes(content)


def run(command: Sequence[str | Path], course: Path, size: int, results: str = "") -> Run:
    """Runs a command in a course folder and watches its memory.

    Args:
        command: the command.
        course: the folder.
        size: how many submissions there are.
        results: which files it writes when one of them is done.

    Raises:
        RuntimeError: the command failed.
    """
    path = os.pathsep.join((str(SCRIPTS), os.environ["PATH"]))
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}
    begin = time.perf_counter()
    with open(course / "log.txt", "w") as log:
        process = subprocess.Popen(command, cwd=course, env=environment, stdout=log, stderr=subprocess.STDOUT)
        with peak_memory(process.pid) as peak:
            status = process.wait()
    seconds = time.perf_counter() - begin
    if status != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{(course / 'log.txt').read_text()[-2000:]}")
    finished = sorted(path.stat().st_mtime for path in course.glob(results)) if results else []
    return Run(size, seconds, peak[0], tuple(finished))


@contextmanager
def peak_memory(pid: int) -> Iterator[list[int]]:
    """Watches a process and all its descendants; the one number in the list is the greatest sum seen, in bytes."""
    import psutil

    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            try:
                family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
            peak[0] = max(peak[0], sum(map(_proportional, family)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _proportional(process) -> int:
    import psutil

    try:
        memory = process.memory_full_info()
    except (psutil.Error, OSError):  # it has ended, or is a student's and not ours to look into
        return 0
    return getattr(memory, "pss", 0) or memory.rss


def classroom(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "course_utils.classroom", *arguments]


def fresh(folder: Path, prepared: Path, size: int) -> Path:
    """A course folder with so many submissions, of which nothing is graded."""
    course = folder / f"class-{size}-{time.monotonic_ns()}"
    shutil.copytree(prepared, course)
    fill(course, size)
    return course


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """A Dask scheduler and workers, as started by hand on several machines. Gives the scheduler's address."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with TemporaryDirectory() as scratch:
        address_file = Path(scratch) / "scheduler.json"
        options = {"env": environment, "cwd": scratch, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        dask = [sys.executable, "-m", "dask"]
        scheduler = [
            *dask,
            "scheduler",
            "--host",
            "tcp://127.0.0.1",
            "--port",
            "0",
            "--dashboard-address",
            "127.0.0.1:0",
        ]
        processes = [subprocess.Popen([*scheduler, "--scheduler-file", address_file], **options)]
        try:
            deadline = time.monotonic() + 60
            while not address_file.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            import json

            address = json.loads(address_file.read_text())["address"]
            for _ in range(workers):
                processes.append(subprocess.Popen([*dask, "worker", address, "--nthreads", "1"], **options))
            _wait_for(address, workers)
            yield address
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait()


def _wait_for(address: str, workers: int) -> None:
    from distributed import Client

    with Client(address, timeout=60) as client:
        client.wait_for_workers(workers, timeout=120)


def in_worker(course: Path) -> tuple[float, float]:
    """Medians over a graded class: real seconds of a whole submission in its worker, and those that its checks used.

    Between them lie its cells, the forks, and the time in which the other workers had the cores.
    """
    import json

    wholes, checks = [], []
    for path in course.glob(REPORTS):
        report = json.loads(path.read_text(encoding="utf-8"))["report"]
        wholes.append(report["wall_seconds"])
        checks.append(sum(result["wall_seconds"] for result in report["exercises"]))
    return statistics.median(wholes), statistics.median(checks)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[20, 60], help="submissions in a class, in rising order"
    )
    parser.add_argument("--plain", type=int, nargs="+", default=[5], help="submissions for nbgrader autograde")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as scratch:
        prepared = Path(scratch) / "prepared"
        subprocess.run(classroom("init", str(prepared), "--lessons", ASSIGNMENT), cwd=REPOSITORY, check=True)
        run(classroom("release"), prepared, 0)
        plain: list[Run] = []
        ours: list[Run] = []
        graded: Path | None = None
        for turn in range(max(len(options.sizes), len(options.plain))):
            if turn < len(options.plain):
                size = options.plain[turn]
                course = fresh(Path(scratch), prepared, size)
                plain.append(run([SCRIPTS / "nbgrader", "autograde", ASSIGNMENT], course, size, NOTEBOOKS))
                show("nbgrader autograde", plain[-1])
            if turn < len(options.sizes):
                size = options.sizes[turn]
                graded = fresh(Path(scratch), prepared, size)
                ours.append(run(classroom("grade", "--workers", str(options.workers)), graded, size, REPORTS))
                show(f"grade, {options.workers} processes", ours[-1])
        with cluster(options.workers) as address:
            over_tcp = []
            for size in (min(options.sizes), max(options.sizes)):
                course = fresh(Path(scratch), prepared, size)
                over_tcp.append(run(classroom("grade", "--scheduler", address), course, size, REPORTS))
                show(f"grade, {options.workers} workers over TCP", over_tcp[-1])
        assert graded is not None
        unchanged = run(classroom("grade"), graded, ours[-1].size)
        show("grade again, nothing changed", unchanged)
        whole, checks = in_worker(graded)
        other = seconds_with_otter(fresh(Path(scratch), prepared, min(options.plain)), Path(scratch))
    return verdict(plain, ours, over_tcp, whole, checks, other)


def seconds_with_otter(course: Path, scratch: Path) -> float | None:
    """Seconds a submission that otter-grader takes for those of a course folder; None where it is not installed."""
    program = otter.found()
    if program is None:
        return None
    folder = scratch / "otter"
    folder.mkdir()
    seconds = otter.seconds_each(program, "detach", sorted(course.glob("submitted/*/*/*.ipynb")), folder)
    print(f"otter run: {seconds:.2f} s a submission")
    return seconds


def show(name: str, run: Run) -> None:
    print(
        f"{name:32} {run.size:5} submissions {run.seconds:8.1f} s   peak {run.peak_bytes / 2**30:5.2f} GiB", flush=True
    )


def verdict(
    plain: Sequence[Run],
    ours: Sequence[Run],
    over_tcp: Sequence[Run],
    whole: float,
    checks: float,
    with_otter: float | None = None,
) -> int:
    """Prints what it comes to; returns 1 where a target was missed, or could not be measured."""
    ratio = _ratio(each(plain), each(ours))
    flat = _ratio(each(ours), each([min(ours, key=lambda run: run.size)]))
    peak = max(run.peak_bytes for run in (*ours, *over_tcp))
    times = " ".join(
        f"{name} {_shown(each(runs))} s" for name, runs in (("nbgrader", plain), ("here", ours), ("TCP", over_tcp))
    )
    print(f"\na submission: {times}")
    print(f"in its worker: {whole:.2f} s, of that used by its checks {checks:.2f} s (medians)")
    rows = (
        ("ratio to nbgrader, a submission", ratio, f">= {TARGET_RATIO:g}", ratio is not None and ratio >= TARGET_RATIO),
        (
            "a submission, largest to smallest class",
            flat,
            f"<= {TARGET_FLAT:g}",
            flat is not None and flat <= TARGET_FLAT,
        ),
        ("memory of the whole run, GiB", peak / 2**30, f"<= {TARGET_BYTES / 2**30:g}", peak <= TARGET_BYTES),
    )
    for name, value, target, reached in rows:
        print(f"{name:45} {_shown(value):>8}  {target:8} {'' if reached else 'missed'}".rstrip())
    for one in plain:
        for other in ours:
            if one.size == other.size:
                print(f"{f'ratio of whole runs of {one.size}, start included':45} {one.seconds / other.seconds:8.2f}")
    if with_otter is None:
        print("otter-grader is not installed here: no ratio to it.")
    elif (ratio := _ratio(with_otter, each(ours))) is not None:
        print(f"{'ratio to otter run, a submission':45} {ratio:8.2f}")
    return int(not all(reached for *_, reached in rows))


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())

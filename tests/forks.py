"""``autograd-control`` in processes of its own (``start``, ``ended``): forks of one that has imported what it needs."""

import multiprocessing
import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from course_utils.__main__ import main

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "course_utils.leaks.__main__", "course_utils.why.__main__"])


def command(folder: Path, words: tuple[str, ...]) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main([*words]))


def start(folder: Path, *words: str) -> BaseProcess:
    process = FORKS.Process(target=command, args=(folder, words))
    process.start()
    return process


def ended(folder: Path, process: BaseProcess) -> tuple[int | None, str, str]:
    """Its exit code, and what it has written to stdout and stderr."""
    process.join(300)
    return process.exitcode, *((folder / name).read_text() for name in ("out", "err"))

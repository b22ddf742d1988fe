"""Processes that are forks of a Python which has imported already what programs and kernels import (``context``), and
kernels among them (``launch_kernel``). The imports take 2 s of processor time, a fork a few hundredths.
"""

import os
from functools import cache
from multiprocessing import forkserver, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from unittest import mock

from course_utils.authoring.execute import kernel_environment

# torch imports its compiler with the first optimizer. What draws into notebooks is not here: it looks for its kernel.
PRELOADED = [
    "torch._dynamo",
    "course_utils.lesson",
    "course_utils.draw",
    "course_utils.authoring.programs",  # which the forks of ``programs.printed`` begin in
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_agg",
]


@cache
def context() -> ForkServerContext:
    """Its processes are forks of one warm Python, which ends with the process that called this first."""
    warm = get_context("forkserver")
    warm.set_forkserver_preload(PRELOADED)
    with TemporaryDirectory() as scratch, mock.patch.dict(os.environ, kernel_environment(Path(scratch))):
        forkserver.ensure_running()
    return warm


class Kernel(ForkServerProcess):
    """A process with as much more of ``subprocess.Popen`` as Jupyter asks for."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.join(timeout)
        return self.exitcode

    def send_signal(self, number: int) -> None:
        if self.pid and self.exitcode is None:
            os.kill(self.pid, number)


def launch_kernel(cmd: list[str], **options: Any) -> Kernel:
    """In place of the function of this name in ``jupyter_client.launcher``."""
    context()
    is_there, started = context().Pipe(duplex=False)
    environment = dict(options.get("env") or os.environ)
    folder = str(options.get("cwd") or Path.cwd())
    kernel = Kernel(target=_kernel, args=(started, cmd[cmd.index("-f") :], environment, folder))
    kernel.start()
    is_there.recv()  # by now it leads a group of its own, to which Jupyter sends its signals
    return kernel


def _kernel(started: Connection, arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1), os.dup2(nowhere, 2)  # what a kernel says beside its cells
    started.send(None)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    Thread(target=_end_with_the_caller, daemon=True).start()
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance(arguments)


def _end_with_the_caller() -> None:
    # ipykernel looks whether the forking process is there, and that one waits for its last kernel.
    parent_process().join()  # type: ignore[union-attr]  # whoever called ``launch_kernel``
    os._exit(1)

"""A Python that has imported already what programs and kernels import; they run in forks of it (``fork``).

The imports take 2 s of processor time, a fork a few hundredths. A run of many tests shares one such Python, whose
address stands in ``COURSE_WARM`` (``shared``); anybody else gets one at the first fork, which ends with the process
that asked for it.
"""

import atexit
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Client, Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from course_utils.authoring.execute import kernel_environment

VARIABLE = "COURSE_WARM"
# torch imports its compiler with the first optimizer. What draws into notebooks is not here: it looks for its kernel.
PRELOADED = (
    "torch._dynamo",
    "course_utils.lesson",
    "course_utils.memory",
    "course_utils.draw",
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_agg",
)


class Forked:
    """A process that runs a function, with as much of ``subprocess.Popen`` as Jupyter asks for.

    Attributes:
        pid: its number; it leads a process group of its own.
        returncode: None while it runs, then 0: nobody is told what it exits with.
    """

    stdin = stdout = stderr = None

    def __init__(self, connection: Connection) -> None:
        self._connection = connection  # its other end is closed when the process ends
        self.returncode: int | None = None
        self.pid: int = connection.recv()

    def result(self, seconds: float) -> Any:
        """What the function returned.

        Raises:
            TimeoutError: it took longer; the process is killed.
            EOFError: the process ended before that.
        """
        if not self._connection.poll(seconds):
            os.killpg(self.pid, signal.SIGKILL)
            raise TimeoutError(f"A fork ran for longer than {seconds:.0f} s.")
        return self._connection.recv()

    def poll(self) -> int | None:
        """None while the process runs."""
        if self.returncode is None and self._connection.poll():
            self.returncode = 0
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: that took longer.
        """
        if self.returncode is None and not self._connection.poll(timeout):
            raise subprocess.TimeoutExpired("a fork", timeout or 0)
        self.returncode = 0
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(function: Callable[..., Any], *arguments: Any, outputs: tuple[int, int] = (1, 2)) -> Forked:
    """Runs a function of some module in a process of its own.

    Args:
        function: it and its arguments are pickled, and so is what it returns.
        arguments: in their order.
        outputs: the descriptors that become the process's standard output and error; by default the caller's.
    """
    connection = Client(os.environ.get(VARIABLE) or _own(), family="AF_UNIX")
    connection.send_bytes(pickle.dumps((function, arguments)))
    for descriptor in outputs:
        send_handle(connection, descriptor, None)
    return Forked(connection)


def launch_kernel(cmd: list[str], **options: Any) -> Forked:
    """In place of the function of this name in ``jupyter_client.launcher``."""
    stdout, stderr = (options.get(name) for name in ("stdout", "stderr"))
    outputs = (stdout.fileno() if stdout else 1, stderr.fileno() if stderr else 2)
    environment = dict(options.get("env") or os.environ)
    folder = str(options.get("cwd") or Path.cwd())
    return fork(_kernel, cmd[cmd.index("-f") :], environment, folder, outputs=outputs)


def _kernel(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))  # it ends when its parent does
    os.chdir(folder)
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance(arguments)


@contextmanager
def shared() -> Iterator[None]:
    """A warm Python for this process and for those that it starts meanwhile."""
    with TemporaryDirectory(prefix="warm-") as folder, socket.socket(socket.AF_UNIX) as listener:
        address = os.path.join(folder, "socket")
        listener.bind(address)
        listener.listen(64)  # whoever connects now waits until the imports are done
        # -P and the option are what a kernel starts with. A session of its own: ctrl-C is for those who use it.
        code = f"from {__name__} import _serve; _serve({PRELOADED})"
        command = [sys.executable, "-Xfrozen_modules=off", "-P", "-c", code]
        with TemporaryDirectory() as scratch:
            environment = os.environ | kernel_environment(Path(scratch))
        server = subprocess.Popen(command, stdin=listener.fileno(), env=environment, start_new_session=True)
        listener.close()
        os.environ[VARIABLE] = address
        try:
            yield
        finally:
            os.environ.pop(VARIABLE, None)
            server.terminate()
            server.wait()


def _own() -> str:
    stack = ExitStack()
    stack.enter_context(shared())
    atexit.register(stack.close)
    return os.environ[VARIABLE]


def _serve(preloaded: Sequence[str]) -> None:
    """Forks for each connection to the socket at descriptor 0, until the process that started this one is gone."""
    parent = os.getppid()
    for name in preloaded:
        importlib.import_module(name)
    listener = socket.socket(fileno=0)
    forks: set[int] = set()
    while os.getppid() == parent:
        forks = {pid for pid in forks if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        if not select.select([listener], [], [], 1)[0]:
            continue
        connection = Connection(listener.accept()[0].detach())
        request, outputs = connection.recv_bytes(), [recv_handle(connection), recv_handle(connection)]
        if not (pid := os.fork()):
            listener.close()
            _run(connection, request, outputs)
        forks.add(pid)
        connection.close()
        for descriptor in outputs:
            os.close(descriptor)


def _run(connection: Connection, request: bytes, outputs: list[int]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        for descriptor, own in zip((os.open(os.devnull, os.O_RDONLY), *outputs), range(3), strict=True):
            os.dup2(descriptor, own)
        connection.send(os.getpid())
        function, arguments = pickle.loads(request)
        connection.send(function(*arguments))
        status = 0
    except SystemExit:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        os._exit(status)

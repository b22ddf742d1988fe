"""Runs the cells of one submission and judges its answers, inside the student's own process (``prepare``).

Cells run in the IPython shell of this process, and nothing of what judges can be reached while they do: no frame, no
list of the garbage collector, no name leads to it. Each check runs in a fork. What judges wakes there, as a function
that the interpreter itself calls after a fork: it puts back what a student's code may have replaced, asks the
supervisor what to judge, and signs what it found. What the answer does there is gone with the fork.

Limits: an answer is judged in the process in which it runs, because what is judged is what it does to live tensors. A
student's code that finds its way from an object to the code behind it (``__globals__`` of a model that it was given,
``__subclasses__`` of ``object``), or writes memory through a library's missing bounds check, can reach what judges it.
The plain ways lead nowhere or are seen; not every other one is.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from course_utils.checks.exercise import Exercise
from course_utils.checks.judge import _BUSY, judge
from course_utils.classroom.sandbox.protocol import Channel, signed
from course_utils.classroom.sandbox.shell import Outputs, as_failure
from course_utils.classroom.tampering import audit

if TYPE_CHECKING:  # a class that this module held would be among those whose names are put back, its one shell with it
    from course_utils.classroom.sandbox.shell import Shell

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

_set_profile, _set_trace, _sleep = sys.setprofile, sys.settrace, time.sleep
_FORK_TRIES, _FORK_SECONDS = 200, 0.05
_END_TRIES, _END_SECONDS = 100, 0.01
_TEXT = 20_000  # characters of any one text in a result


def prepare(
    descriptor: int,
    reports: int,
    secret: bytes,
    shell: Shell,
    restore: Callable[[], list[str]],
    exercises: dict[tuple[str, str], Exercise],
    roots: tuple[str, ...],
) -> Callable[[], None]:
    """Makes the process ready for a student's code.

    Args:
        descriptor: of the socket to the supervisor.
        reports: descriptor of the socket for what ``audit`` sees.
        secret: proves to the supervisor that it is the check which speaks.
        shell: where cells run.
        restore: puts back what differs, and names it; see ``names``.
        exercises: by lesson and name.
        roots: folders whose code is not a student's.

    Returns:
        What serves the supervisor's requests until it ends the process. Its frame holds nothing of what judges.
    """
    channel = Channel(socket.socket(fileno=descriptor))
    place, asked = ["the set-up cell"], list[bool]()
    begin_judging, check, leave = audit.install(reports, secret, roots, place), _check, os._exit

    def after_fork() -> None:
        if asked:
            asked.clear()  # where the answer forks, its new process is not taken for another check
            try:
                begin_judging("a check that begins")
                # Until this has put back this module's names, no name of it is looked up: a frame leads cells to them.
                put_back = restore()
                check(channel, secret, shell, restore, bool(put_back), exercises, begin_judging)
            finally:
                leave(0)

    # In this order, and before any that a student registers: what a student's code has set up to be called at every
    # call or collection would meet the frame of a Python function, and what that holds.
    for call in (partial(_set_profile, None), partial(_set_trace, None), gc.callbacks.clear, after_fork):
        os.register_at_fork(after_in_child=call)
    signal.signal(signal.SIGINT, shell.interrupt)
    sys.path.insert(0, "")  # as in a kernel: modules that cells write are found
    channel.send({"up": os.getpid()})
    serve = _server(channel, shell, place, asked)
    gc.collect()
    gc.freeze()  # what is frozen is on none of the garbage collector's lists
    return serve


def _server(channel: Channel, shell: Shell, place: list[str], asked: list[bool]) -> Callable[[], None]:
    me = os.getpid()

    def serve() -> None:
        while True:
            message = channel.receive()
            place[0] = str(message["name"])
            if message["do"] == "cell":
                outputs, error = Outputs(message["output_bytes"]), None
                if not message["unless"] or any(name not in shell.user_ns for name in message["unless"]):
                    shell.user_ns |= {name: None for name in message["deletes"] if name not in shell.user_ns}
                    error = _error_of(shell, message["source"], outputs, store_history=True)
                if os.getpid() != me:  # a cell has forked, and this is the child
                    return
                channel.send({"outputs": outputs.items(), "error": error, "count": shell.execution_count - 1})
                continue
            asked.append(True)
            try:
                channel.send({"forked": _forked(), "threads": threading.active_count() - 1})
            except OSError as error:  # too many processes, or no memory for one more
                channel.send({"forked": 0, "why": str(error)})
            asked.clear()
            channel.receive()  # the supervisor holds this process while the check has the channel to itself
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    return serve


def _error_of(shell: Shell, source: str, outputs: Outputs, store_history: bool = False) -> list[str] | None:
    """Runs a cell. Returns the type and the message of what it raised; None where it came to its end."""
    try:
        with shell.collecting(outputs):
            result = shell.run_cell(source, store_history=store_history)
        error: BaseException | None = result.error_before_exec or result.error_in_exec
    except BaseException as raised:  # the shell itself was broken by a cell; the next ones may still run
        error = raised
    return None if error is None else [type(error).__name__, _short(error)]


# What follows runs in the fork of a check.


def _check(
    channel: Channel,
    secret: bytes,
    shell: Shell,
    restore: Callable[[], list[str]],
    put_back: bool,
    exercises: dict[tuple[str, str], Exercise],
    begin_judging: Callable[[str], None],
) -> None:
    request, me = dict[str, Any](), os.getpid()
    try:
        # Headroom: an answer may have filled all memory that it is allowed, and judging takes some, too.
        resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
        replaced = set(restore() if put_back else ())  # what cannot be put back is found again
        _quieten()
        channel.send(signed({"ready": True}, secret, request))
        request = channel.receive()
        begin_judging(str(request["name"]))
        if request["repeat"]:
            _error_of(shell, request["repeat"], Outputs(_TEXT))
        if request["exercise"]:
            result = _lesson_check(request, shell, exercises)
        else:
            result = _in_a_thread(partial(_own_check, request, shell))
        result["threads"] = _is_thread_left()
        result["replaced"] = sorted(replaced.union(restore()))
    except BaseException as error:  # never the answer's doing: what that raises is in the result
        result = {"unjudged": f"{type(error).__name__}: {_short(error)}"}
    if os.getpid() == me:  # else the answer has forked, and this is the child
        channel.send(signed({"result": result}, secret, request))


def _is_thread_left() -> bool:
    """Whether a thread still runs, after a while in which one that was told to end comes to its end."""
    for _ in range(_END_TRIES):
        if threading.active_count() == 1:
            return False
        _sleep(_END_SECONDS)
    return True


def _forked() -> int:
    """A fork; where there are too many processes, after a while in which those that were killed come to their end."""
    for _ in range(_FORK_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            _sleep(_FORK_SECONDS)
    return os.fork()


def _lesson_check(request: dict[str, Any], shell: Shell, exercises: dict[tuple[str, str], Exercise]) -> dict[str, Any]:
    try:
        answer = eval(compile(request["expression"], "<check>", "eval"), shell.user_ns)
    except BaseException as error:  # the name is not defined, or reading it runs a student's code
        return {"error": [type(error).__name__, _short(error)]}
    score = judge(exercises[request["lesson"], request["exercise"]], answer, request["lesson"])
    claims = [
        vars(claim) | {"misconception": claim.misconception and vars(claim.misconception)} for claim in score.claims
    ]
    return _plain(vars(score) | {"earned": float.__float__(score), "claims": claims})


def _own_check(request: dict[str, Any], shell: Shell) -> dict[str, Any]:
    """A teacher's own check cell: passed if nothing in it fails; a last value that is a number is partial credit.

    It sees the student's names, but modules, classes and functions of the set-up cell as that cell makes them, and it
    is run by Python itself, statement by statement: a shell could have been taught to run something else. It ends with
    the first that fails and does not stand, by its line, among those that are tested ``separate``ly.
    """
    space = shell.user_ns | _made_by(request["setup"], shell) | {"__builtins__": builtins}
    failed: list[list[Any]] = []
    value: Any = None
    with shell.collecting(Outputs(_TEXT)):
        for statement in ast.parse(request["source"]).body:
            try:
                value = _run(statement, space)
                if value is False:
                    raise AssertionError("it is False")
                if hasattr(value, "__array__"):  # as `f(x) == y` of tensors, which nbgrader takes for full marks
                    raise TypeError(f"the line gives a {type(value).__name__}; write assert and .all(), or a number")
            except BaseException as error:
                failed.append([statement.lineno, *as_failure(error, _short(error))])
                if statement.lineno not in request["separate"]:
                    break
    return {"failed": failed, "value": float(value) if type(value) in (int, float) else None}


def _in_a_thread(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a function returns in a thread of its own. There no answer can ask for signals, which would hand it the main
    thread's frame and all below it. A lesson's claims run in threads, too."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def _run(statement: ast.stmt, space: dict[str, Any]) -> Any:
    """Runs a statement. Returns what it gives where it is an expression, else None."""
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), "<check>", "eval"), space)
    exec(compile(ast.Module([statement], []), "<check>", "exec"), space)
    return None


def _made_by(setup: str, shell: Shell) -> dict[str, Any]:
    """The modules, classes and functions that the set-up cell makes."""
    space: dict[str, Any] = {"__builtins__": builtins}
    with shell.collecting(Outputs(0)), contextlib.suppress(Exception):  # then there are none to put back
        exec(compile(setup, "<set-up>", "exec"), space)
    del space["__builtins__"]
    return {name: value for name, value in space.items() if isinstance(value, types.ModuleType) or callable(value)}


def _quieten() -> None:
    """Nothing that a cell has set up may run a student's code in the middle of a check."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # What threading.settrace and setprofile left for new threads, and these two calls themselves may be a student's.
    threading._trace_hook = threading._profile_hook = None  # type: ignore[attr-defined]  # not in Python's stubs
    for tool in range(6) if hasattr(sys, "monitoring") else ():
        sys.monitoring.free_tool_id(tool)  # type: ignore[attr-defined]  # since Python 3.12
    if _BUSY.locked():  # a thread of the student's held it when this process was forked
        _BUSY.release()


def _plain(value: Any) -> Any:
    """The same as JSON can hold it, with texts cut."""
    if type(value) is dict:
        return {name: _plain(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    return value if type(value) in (bool, float, int, type(None)) else _text(value)


def _text(value: object) -> str:
    text = value if type(value) is str else str(value)
    return text.encode("utf-8", "replace").decode()[:_TEXT]


def _short(error: BaseException) -> str:
    try:
        return _text(str(error).strip().split("\n")[0][:300])
    except BaseException:  # an exception class of the student's own whose __str__ fails
        return ""

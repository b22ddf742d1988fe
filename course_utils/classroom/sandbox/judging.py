"""Judges one answer in the fork of a check (``judged``). It is imported there, anew, and nowhere else."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import io
import resource
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any

_TEXT = 20_000  # characters of any one text in a result


def judged(
    request: dict[str, Any],
    shell: Any,
    restore: Callable[[], list[str]],
    put_back: list[str],
    begin: Callable[[], None],
    refused: list[str],
    seal: Callable[[], Callable[[], list[str]]],
) -> dict[str, Any]:
    """Judges what a request asks for. Nothing that the answer does makes it raise."""
    try:
        # Headroom: an answer may have filled all memory that it is allowed, and judging takes some, too.
        resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
        _quieten()
        look = partial(_own_check, request, shell)
        if request["exercise"]:
            lesson = importlib.import_module(f"course_utils.lessons.{request['lesson']}")
            (exercise,) = [one for one in lesson.EXERCISES if one.name == request["exercise"]]
            from course_utils.checks import trial
            from course_utils.checks.judge import judge

            vars(trial)["Settings"] = _comparing(trial.Settings, lambda: replaced.update(sealed()))
            look = partial(_lesson_check, request, shell, exercise, judge)
        replaced = set(restore() if put_back else ())  # what cannot be put back is found again
        sealed = seal()
        begin()
        result = look()
        result |= {"threads": _is_thread_left(), "replaced": sorted(replaced.union(restore(), sealed()))}
        result["refused"] = list(dict.fromkeys(refused))
        return result
    except BaseException as error:  # never the answer's doing: what that raises is in the result
        return {"unjudged": f"{type(error).__name__}: {_short(error)}"}


def _comparing(settings: type, compare: Callable[[], None]) -> type:
    """What a trial puts back when the answer returns, so that names are compared each time before the judge goes on."""

    class Settings(settings):  # type: ignore[misc, valid-type]  # whatever the class is
        def restore(self) -> Any:
            compare()
            return super().restore()

    return Settings


def _lesson_check(request: dict[str, Any], shell: Any, exercise: Any, judge: Any) -> dict[str, Any]:
    try:
        answer = eval(compile(request["expression"], "<check>", "eval"), shell.user_ns)
    except BaseException as error:  # the name is not defined, or reading it runs a student's code
        return {"error": [type(error).__name__, _short(error)]}
    score = judge(exercise, answer, request["lesson"])
    claims = [vars(one) | {"misconception": one.misconception and vars(one.misconception)} for one in score.claims]
    return _plain(vars(score) | {"earned": float.__float__(score), "claims": claims})


def _own_check(request: dict[str, Any], shell: Any) -> dict[str, Any]:
    """A teacher's own check cell: passed if nothing in it fails; a last value that is a number is partial credit.

    It sees the student's names, but Python's own as Python has them, and modules, classes and functions of the set-up
    cell as that cell makes them.
    """
    own = {name: value for name, value in shell.user_ns.items() if name not in vars(builtins)}
    space = own | _made_by(request["setup"]) | {"__builtins__": builtins}
    failed: list[Any] | None = None
    value: Any = None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for statement in ast.parse(request["source"]).body:
            try:
                value = _run(statement, space)
                if value is False:
                    raise AssertionError("it is False")
                if hasattr(value, "__array__"):  # as `f(x) == y` of tensors, which nbgrader takes for full marks
                    raise TypeError(f"the line gives a {type(value).__name__}; write assert and .all(), or a number")
            except BaseException as error:
                failed = [statement.lineno, *_as_failure(error)]
                break
    return {"failed": failed, "value": float(value) if failed is None and type(value) in (int, float) else None}


def _as_failure(error: BaseException) -> tuple[str, str]:
    """An error's kind and text. What a test raises while no code of a cell runs is a test that fails."""
    kind, text, trace = type(error).__name__, _short(error), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<ipython-input"):
            return kind, text
        trace = trace.tb_next
    return (kind, text) if isinstance(error, AssertionError) else ("AssertionError", f"{kind}: {text}")


def _run(statement: ast.stmt, space: dict[str, Any]) -> Any:
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), "<check>", "eval"), space)
    exec(compile(ast.Module([statement], []), "<check>", "exec"), space)
    return None


def _made_by(setup: str) -> dict[str, Any]:
    """The modules, classes and functions that the set-up cell makes."""
    space: dict[str, Any] = {"__builtins__": builtins}
    with contextlib.suppress(Exception):  # then there are none to put back
        exec(compile(setup, "<set-up>", "exec"), space)
    del space["__builtins__"]
    return {name: value for name, value in space.items() if isinstance(value, types.ModuleType) or callable(value)}


def _quieten() -> None:
    """Nothing that a cell has set up may run a student's code in the middle of a check."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    threading._trace_hook = threading._profile_hook = None  # type: ignore[attr-defined]  # not in Python's stubs
    for tool in range(6) if hasattr(sys, "monitoring") else ():
        sys.monitoring.free_tool_id(tool)  # type: ignore[attr-defined]  # since Python 3.12


def _is_thread_left() -> bool:
    """Whether a thread still runs, after a while in which one that was told to end comes to its end."""
    for _ in range(100):
        if threading.active_count() == 1:
            return False
        time.sleep(0.01)
    return True


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

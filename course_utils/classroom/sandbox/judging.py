"""Judges one answer in the fork of a check (``judged``). It is imported there, anew, and nowhere else."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import io
import json
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from course_utils.checks.judge import judge
from course_utils.checks.state import Settings


def judged(
    request: dict[str, Any],
    shell: Any,
    restore: Callable[[], list[str]],
    begin: Callable[[], list[str]],
    judges: Any,
    picture: Callable[..., Callable[[], list[str]]],
) -> dict[str, Any]:
    """Judges what a request asks for. Nothing that the answer does makes it raise."""
    try:
        _quieten()
        look = partial(_own_check, request, shell)
        if request["exercise"]:
            with judges.texts():
                lesson = importlib.import_module(f"course_utils.lessons.{request['lesson']}")
            (exercise,) = [one for one in lesson.EXERCISES if one.name == request["exercise"]]
            _compare_on_return(lambda: replaced.update(sealed()))
            look = partial(_lesson_check, request, shell, exercise)
        replaced = set(restore())  # names were put back a moment ago: what still differs cannot be
        sealed = judges.sealed(picture)
        refused = begin()
        result = look()
        return result | {"replaced": sorted(replaced.union(restore(), sealed())), "refused": [*dict.fromkeys(refused)]}
    except BaseException as error:  # never the answer's doing: what that raises is in the result
        return {"unjudged": f"{type(error).__name__}: {_short(error)}"}


def _compare_on_return(compare: Callable[[], None]) -> None:
    """Each time control comes back from the answer, names are compared before the judge goes on."""
    genuine = Settings.restore

    def restore(self: Settings) -> list[str]:
        compare()
        return genuine(self)

    Settings.restore = restore  # type: ignore[method-assign]  # each return of control passes here


def _lesson_check(request: dict[str, Any], shell: Any, exercise: Any) -> dict[str, Any]:
    try:
        answer = eval(compile(request["expression"], "<check>", "eval"), shell.user_ns)
    except BaseException as error:  # the name is not defined, or reading it runs a student's code
        return {"error": [type(error).__name__, _short(error)]}
    score = judge(exercise, answer, request["lesson"])
    claims = [vars(one) | {"misconception": one.misconception and vars(one.misconception)} for one in score.claims]
    told = json.dumps(vars(score) | {"earned": float.__float__(score), "claims": claims}, ensure_ascii=False)
    return dict(json.loads(told.encode("utf-8", "replace")))  # half a surrogate pair is in no file


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
        for statement in ast.parse(request["full"]).body:
            try:
                value = eval(_compiled(statement), space)
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
    kind, text = type(error).__name__, _short(error)
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    in_cell = any(file.startswith("<ipython-input") for file in files)
    return (kind, text) if in_cell or isinstance(error, AssertionError) else ("AssertionError", f"{kind}: {text}")


def _compiled(statement: ast.stmt) -> types.CodeType:
    if isinstance(statement, ast.Expr):
        return compile(ast.Expression(statement.value), "<check>", "eval")
    return compile(ast.Module([statement], []), "<check>", "exec")


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


def _short(error: BaseException) -> str:
    try:
        return str(error).strip().split("\n")[0][:300].encode("utf-8", "replace").decode()
    except BaseException:  # an exception class of the student's own whose __str__ fails
        return ""

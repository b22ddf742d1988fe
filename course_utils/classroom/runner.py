"""Runs the cells of one submission and judges its answers, inside the student's own process (``serve``).

Cells run in the IPython shell of this process. Each check runs in a fork of it: what the answer does there is gone
with the fork, and a check that is killed costs its own question. The fork first puts back what a student's code may
have replaced, then asks the guard for a number, and sends that number with the score. Imports the exercise engine, and
of this package ``protocol``, ``shell``, ``integrity`` and ``audit``.

Limits: an answer is judged in the process in which it runs, because what is judged is what it does to live tensors. A
student's code that finds its way from an object to the code behind it (``__globals__`` of a model that it was given,
``__subclasses__`` of ``object``), or writes memory through a library's missing bounds check, can reach what judges it.
The plain ways are refused or seen; a name that is put together while the program runs may not be.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import torch

from course_utils.classroom import audit
from course_utils.classroom.integrity import KERNEL, Picture
from course_utils.classroom.protocol import Channel, signed
from course_utils.classroom.shell import Outputs
from course_utils.exercise import Exercise, Predict
from course_utils.judge import _BUSY, judge
from course_utils.state import Settings

if TYPE_CHECKING:
    from course_utils.classroom.shell import Shell

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

_TEXT = 20_000  # characters of any one text in a result

# What a cell can leave changed for the cells after it; ``Settings`` puts it back.
_SETTINGS = (
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.get_default_dtype,
    torch.is_anomaly_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch.get_float32_matmul_precision,
    gc.isenabled,
    sys.getrecursionlimit,
)


def serve(
    channel: Channel,
    reports: int,
    secret: bytes,
    shell: Shell,
    picture: Picture,
    exercises: dict[tuple[str, str], Exercise | Predict],
    roots: tuple[str, ...],
) -> None:
    """Does what the guard asks, until it closes the channel or kills this process."""
    student = _Student(channel, secret, shell, picture, exercises)
    signal.signal(signal.SIGINT, shell.interrupt)
    audit.install(reports, secret, roots, lambda: student.current)
    student.answer({"up": os.getpid()})
    while True:
        message = channel.receive()
        student.ticket = str(message.get("ticket"))
        if message["do"] == "cell":
            student.answer(student.run(message))
        elif message["do"] == "check":
            student.fork(message)


class _Student:
    def __init__(
        self,
        channel: Channel,
        secret: bytes,
        shell: Shell,
        picture: Picture,
        exercises: dict[tuple[str, str], Exercise | Predict],
    ) -> None:
        self.ticket = ""  # of the request that is being answered
        self._secret = secret
        self._channel, self._shell, self._picture, self._exercises = channel, shell, picture, exercises
        self.current = "the set-up cell"  # which cell or check is running, for the audit's reports
        self._settings: Settings | None = None
        self._values: list[Any] = []
        self._names: dict[str, Any] = {}

    def answer(self, message: dict[str, Any]) -> None:
        self._channel.send(signed(message, self._secret, self.ticket))

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        """Runs a cell. The guard interrupts it when it takes too long."""
        self.current = str(message["name"])
        outputs = Outputs(int(message["output_bytes"]))
        started = time.perf_counter()
        error: BaseException | None = None
        try:
            with self._shell.collecting(outputs):
                result = self._shell.run_cell(message["source"], store_history=True)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as raised:  # the shell itself was broken by a cell; the next ones may still run
            error = raised
        if message.get("setup"):
            self._remember()
        return {
            "outputs": outputs.items(),
            "error": None if error is None else [type(error).__name__, _short(error)],
            "count": self._shell.execution_count - 1,
            "seconds": time.perf_counter() - started,
        }

    def _remember(self) -> None:
        self._settings = Settings()
        self._values = [get() for get in _SETTINGS]
        self._names = {name: value for name, value in self._shell.user_ns.items() if not name.startswith("_")}

    def fork(self, message: dict[str, Any]) -> None:
        """Judges an answer in a child, and waits until the guard has its result."""
        child = os.fork()
        if child == 0:
            try:
                self._judge(message)
            finally:
                os._exit(0)
        self.answer({"forked": child})
        # The guard holds this process while the child has the channel to itself.
        self._channel.receive()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _judge(self, message: dict[str, Any]) -> None:
        before = self._picture.restore()
        _quieten()
        self.current = str(message["name"])
        settings, names = self._changed_settings(), self._changed_names()
        if message["put_back"]:
            self._put_back()
        self.answer({"ready": True})
        nonce = self._channel.receive()["nonce"]
        result = self._lesson_check(message) if message.get("exercise") else self._other_check(message)
        after = self._picture.restore()
        stays = [name for name in before if name.startswith(KERNEL)]  # what cannot be put back
        before = [name for name in before if name not in stays]
        threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        result |= {"before": before, "after": after, "threads": threads, "settings": settings, "names": names}
        self.answer({"nonce": nonce, "result": result})

    def _lesson_check(self, message: dict[str, Any]) -> dict[str, Any]:
        failed = self._repeat(message["repeat"])
        try:
            answer = eval(compile(message["expression"], "<check>", "eval"), self._shell.user_ns)
        except BaseException as error:  # the name is not defined, or reading it runs a student's code
            return {"error": [type(error).__name__, _short(error)], "failed": failed}
        exercise = self._exercises[message["lesson"], message["exercise"]]
        if isinstance(exercise, Predict):
            answer = _plain(answer)
        score = judge(exercise, answer, message["lesson"])
        claims = [
            {
                "text": _text(claim.text),
                "held": bool(claim.held),
                "diagnosis": _text(claim.diagnosis),
                "misconception": _text(claim.misconception),
                "next_step": _text(claim.next_step),
                "details": [[_text(label), _text(value)] for label, value in claim.details],
                "weight": float(claim.weight),
                "judged": bool(claim.judged),
            }
            for claim in score.claims
        ]
        return {
            "earned": float(score),
            "possible": float(score.possible),
            "status": score.status,
            "claims": claims,
            "notes": [_text(note) for note in score.notes],
            "output": _text(score.output),
            "failed": failed,
        }

    def _other_check(self, message: dict[str, Any]) -> dict[str, Any]:
        """A teacher's own check cell: passed if it raises nothing; a last value that is a float is partial credit."""
        failed = self._repeat(message["repeat"])
        outputs = Outputs(_TEXT)
        with self._shell.collecting(outputs):
            result = self._shell.run_cell(message["source"], store_history=False)
        error = result.error_before_exec or result.error_in_exec
        value = result.result
        return {
            "raised": None if error is None else [type(error).__name__, _short(error)],
            "value": float(value) if type(value) in (int, float) else None,
            "outputs": outputs.items(),
            "failed": failed,
        }

    def _repeat(self, sources: list[str]) -> list[str] | None:
        failed = None
        for source in sources:
            with self._shell.collecting(Outputs(_TEXT)):
                result = self._shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                failed = [type(error).__name__, _short(error)]
        return failed

    def _changed_settings(self) -> bool:
        return [get() for get in _SETTINGS] != self._values

    def _changed_names(self) -> list[str]:
        space = self._shell.user_ns
        return sorted(name for name, value in self._names.items() if space.get(name) is not value)

    def _put_back(self) -> None:
        if self._settings is not None:
            # A mode that only ends with its thread does no harm: claims are judged in threads of their own.
            with contextlib.suppress(Exception):
                self._settings.restore()
        self._shell.user_ns.update(self._names)


def _quieten() -> None:
    """Nothing that a cell has set up may run a student's code in the middle of a check."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # What threading.settrace and setprofile left for new threads, and these two calls themselves may be a student's.
    threading._trace_hook = threading._profile_hook = None  # type: ignore[attr-defined]  # not in Python's stubs
    gc.callbacks.clear()
    if _BUSY.locked():  # a thread of the student's held it when this process was forked
        _BUSY.release()


def _plain(value: Any) -> Any:
    """Predictions as Python's own texts, numbers and containers: no class of a student's own compares itself."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return value if isinstance(value, bool) else int.__int__(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in dict.items(value)}
    if isinstance(value, list):
        return [_plain(item) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in tuple.__iter__(value))
    return value


def _text(value: object) -> str:
    text = value if type(value) is str else str(value)
    return text.encode("utf-8", "replace").decode()[:_TEXT]


def _short(error: BaseException) -> str:
    try:
        return _text(str(error).strip().split("\n")[0][:300])
    except Exception:  # an exception class of the student's own whose __str__ fails
        return ""

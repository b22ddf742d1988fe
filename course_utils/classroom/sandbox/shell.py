"""An IPython shell whose outputs are kept as a notebook keeps them (``Shell``).

Nothing here is secret: a student's code can reach every object of the shell.
"""

from __future__ import annotations

import asyncio
import binascii
import io
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

# Pictures and text. A student's HTML or JavaScript would run in the browser of whoever opens the feedback.
KEPT_TYPES = ("text/plain", "image/png", "image/jpeg")
_OWN = "course_utils/classroom/sandbox/"  # a part of paths in tracebacks
_SETTINGS = {"colors": "NoColor", "xmode": "Context", "show_rewritten_input": False}
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def as_failure(error: BaseException, text: str) -> tuple[str, str]:
    """An error's kind and text. What a test raises while no code of a cell runs, as on a result of another shape, is a
    test that fails."""
    kind = type(error).__name__
    is_answers = isinstance(error, AssertionError) or _is_raised_in_a_cell(error)
    return (kind, text) if is_answers else ("AssertionError", f"{kind}: {text}")


def _is_raised_in_a_cell(error: BaseException) -> bool:
    trace = BaseException.__traceback__.__get__(error)  # type: ignore[union-attr]  # mypy knows the value alone
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<ipython-input"):
            return True
        trace = trace.tb_next
    return False


class Outputs:
    """The outputs of one cell, in the form that nbformat gives them, up to a number of bytes.

    Args:
        room: bytes that are kept; of the rest only the number is.
    """

    def __init__(self, room: int) -> None:
        self._lock = threading.Lock()
        self._items: list[dict[str, Any]] = []
        self._room, self._lost = room, 0

    def write(self, name: str, text: str) -> None:
        """Adds to the stream ``stdout`` or ``stderr``."""
        with self._lock:
            text = self._fitting(text)
            if text and self._items and self._items[-1].get("name") == name:
                self._items[-1]["text"].append(text)
            elif text:
                self._items.append({"output_type": "stream", "name": name, "text": [text]})

    def show(self, data: dict[str, Any], count: int | None = None) -> None:
        """Adds something displayed; with ``count`` the value of a cell's last line."""
        kept = {}
        for kind in KEPT_TYPES:
            value = data.get(kind)
            if isinstance(value, bytes):
                value = binascii.b2a_base64(value, newline=False).decode()
            if isinstance(value, str):
                with self._lock:
                    value = self._fitting(value, whole=kind != "text/plain")  # half a picture is none
                if value:
                    kept[kind] = value
        if kept:
            output: dict[str, Any] = {"output_type": "display_data", "data": kept, "metadata": {}}
            if count is not None:
                output |= {"output_type": "execute_result", "execution_count": count}
            with self._lock:
                self._items.append(output)

    def fail(self, name: str, value: str, traceback: list[str]) -> None:
        """Adds an error."""
        with self._lock:
            lines = [self._fitting(_TERMINAL.sub("", str(line))) for line in traceback[:40]]
            error = {"ename": name[:200], "evalue": self._fitting(value[:2000]), "traceback": lines}
            self._items.append({"output_type": "error"} | error)

    def clear(self) -> None:
        with self._lock:
            self._items.clear()

    def items(self) -> list[dict[str, Any]]:
        """The outputs, with a line at the end where something was left out."""
        with self._lock:
            text = f"\n... and {self._lost:,} more characters, which are not kept.\n"
            left_out = [{"output_type": "stream", "name": "stdout", "text": text}] if self._lost else []
            return [*self._items, *left_out]

    def _fitting(self, text: str, whole: bool = False) -> str:
        kept = "" if whole and len(text) > self._room else text[: max(self._room, 0)]
        self._room -= len(kept)
        self._lost += len(text) - len(kept)
        return kept


class Stream(io.TextIOBase):
    """What stands in for ``sys.stdout`` and ``sys.stderr``, with what ipykernel's streams have."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, outputs: Outputs) -> None:
        super().__init__()
        self.name, self._outputs = name, outputs

    def write(self, text: str) -> int:
        text = str(text)
        self._outputs.write(self.name, text)
        return len(text)

    def close(self) -> None:
        """Nothing: a cell that closes its stdout would silence the cells after it."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1 if self.name == "stdout" else 2


class _Publisher(DisplayPublisher):
    shell: Any

    def publish(self, data: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
        if isinstance(data, dict):
            self.shell.outputs.show(data)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.outputs.clear()

    def set_parent(self, parent: Any) -> None:
        """Nothing: ipywidgets calls it on ipykernel's publisher."""


class _Hook(DisplayHook):
    shell: Any

    def start_displayhook(self) -> None:
        pass

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.outputs.show(format_dict, count=self.prompt_count)

    def finish_displayhook(self) -> None:
        pass


class Shell(InteractiveShell):
    """IPython without a terminal, a history file or a person at the keyboard."""

    display_pub_class = _Publisher
    displayhook_class = _Hook
    outputs: Any = Outputs(0)  # those of the running cell
    in_cell = False

    def should_run_async(self, *_: Any, **__: Any) -> bool:
        """Every cell runs in one loop, as in a kernel: a task that one cell makes can be awaited in another.

        What a magic runs as a cell is in that loop already.
        """
        return _loop is None or not _loop.is_running()

    def _tee(self, channel: Any) -> Any:
        """IPython keeps all that is printed in its history a second time, without bounds."""
        return nullcontext()

    def enable_gui(self, gui: Any = None) -> None:
        pass

    def ask_exit(self) -> None:
        pass

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        lines = [line for line in stb if _OWN not in str(line).partition("\n")[0]]  # the frame of ``interrupt``
        self.outputs.fail(getattr(etype, "__name__", str(etype)), str(evalue), lines)

    def interrupt(self, *_: object) -> None:
        """For SIGINT: ends the cell that is running, and nothing else."""
        if self.in_cell:
            raise KeyboardInterrupt

    @contextmanager
    def collecting(self, outputs: Outputs) -> Iterator[None]:
        """What is printed and displayed goes into ``outputs`` while this lasts."""
        kept = sys.stdout, sys.stderr, self.outputs
        sys.stdout, sys.stderr = Stream("stdout", outputs), Stream("stderr", outputs)  # type: ignore[assignment]
        self.outputs, self.in_cell = outputs, True
        try:
            yield
        finally:
            self.in_cell = False
            sys.stdout, sys.stderr, self.outputs = kept


def make_shell() -> Shell:
    """The one shell of this process."""
    config = Config(InteractiveShell=_SETTINGS, HistoryManager={"enabled": False})
    shell = Shell.instance(config=config)
    shell.loop_runner = _run_in_one_loop
    # What was __main__ before leads to whoever made the shell.
    shell._orig_sys_modules_main_mod = None
    shell._orig_sys_module_state = {}
    return shell


def _run_in_one_loop(coroutine: Any) -> Any:
    global _loop
    if _loop is None or _loop.is_closed():  # the first: what it waits with would not survive the fork
        _loop = asyncio.new_event_loop()
    return _loop.run_until_complete(coroutine)


_loop: asyncio.AbstractEventLoop | None = None

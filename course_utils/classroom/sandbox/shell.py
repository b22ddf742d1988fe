"""An IPython shell whose outputs are kept (``make_shell``, ``run``). A student's code can reach every object of it."""

from __future__ import annotations

import asyncio
import binascii
import io
import sys
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

# Pictures and text. A student's HTML or JavaScript would run in the browser of whoever opens the feedback.
KEPT = ("text/plain", "image/png", "image/jpeg")
_SETTINGS = {"colors": "NoColor", "xmode": "Context", "show_rewritten_input": False}


class Stream(io.StringIO):
    """What stands in for ``sys.stdout``: keeps so many characters, and counts the others."""

    encoding, errors = "utf-8", "replace"  # type: ignore[assignment]  # as ipykernel's streams have them

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, text: str) -> int:
        super().write(str(text)[: max(self._room, 0)])
        self._room -= len(str(text))
        return len(str(text))

    def fileno(self) -> int:
        return 1

    def close(self) -> None:
        """Nothing: a cell that closes its stdout would silence the cells after it."""

    def text(self) -> str:
        return self.getvalue() + (f"\n... and {-self._room:,} more characters\n" if self._room < 0 else "")


class _Publisher(DisplayPublisher):
    def publish(self, data: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
        self.shell.shown.append(data)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.shown.clear()

    def set_parent(self, parent: Any) -> None:
        """Nothing: ipywidgets calls it on ipykernel's publisher."""


class _Hook(DisplayHook):
    shell: Any  # IPython knows it as one that may be None

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.shown.append(format_dict)

    def finish_displayhook(self) -> None:
        pass


class Shell(InteractiveShell):
    """IPython without a terminal, a history file or a person at the keyboard."""

    display_pub_class, displayhook_class = _Publisher, _Hook
    shown: Any = ()
    in_cell = False
    loop: Any = None

    def should_run_async(self, *_: Any, **__: Any) -> bool:
        """Every cell runs in one loop, as in a kernel: a task that one cell makes can be awaited in another."""
        return self.loop is None or not self.loop.is_running()

    def enable_gui(self, gui: Any = None) -> None:
        pass

    def ask_exit(self) -> None:
        pass

    def interrupt(self, *_: object) -> None:
        """For SIGINT: ends the cell that is running, and nothing else."""
        if self.in_cell:
            raise KeyboardInterrupt

    def run(self, source: str, unless: list[str], room: int) -> tuple[list[dict[str, Any]], list[str] | None]:
        """Runs a cell, unless there is something by all of the names that it would make.

        Returns:
            Its outputs in nbformat's form, and the kind and first line of what it raised.
        """
        if unless and all(name in self.user_ns for name in unless):
            return [], None
        kept, self.shown, self.in_cell = (sys.stdout, sys.stderr), [], True
        out, err = sys.stdout, sys.stderr = Stream(room), Stream(room)
        try:
            done = self.run_cell(source, store_history=True)
            error = done.error_before_exec or done.error_in_exec
        except BaseException as raised:  # the shell itself was broken by a cell; the next ones may still run
            error = raised
        finally:
            self.in_cell = False
            sys.stdout, sys.stderr = kept
        streams = (("stdout", out.text()), ("stderr", err.text()))
        found: list[dict[str, Any]] = [
            {"output_type": "stream", "name": name, "text": text} for name, text in streams if text
        ]
        for data in self.shown:
            texts = {kind: _as_text(data[kind]) for kind in KEPT if isinstance(data, dict) and kind in data}
            found.append({"output_type": "display_data", "data": texts, "metadata": {}})
        return found, None if error is None else [type(error).__name__, str(error).strip().split("\n")[0][:300]]


def _as_text(value: Any) -> str:
    return binascii.b2a_base64(value, newline=False).decode() if isinstance(value, bytes) else str(value)


def make_shell() -> Shell:
    """The one shell of this process."""
    shell = Shell.instance(config=Config(InteractiveShell=_SETTINGS, HistoryManager={"enabled": False}))

    def run_in_one_loop(coroutine: Any) -> Any:
        if shell.loop is None or shell.loop.is_closed():  # what it waits with would not survive the fork
            shell.loop = asyncio.new_event_loop()
        return shell.loop.run_until_complete(coroutine)

    shell.loop_runner = run_in_one_loop
    shell._orig_sys_modules_main_mod, shell._orig_sys_module_state = None, {}
    return shell

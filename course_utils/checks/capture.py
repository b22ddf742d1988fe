"""Keeps what an answer prints, warns or displays away from the learner's cell, and hands it over as text (``Capture``).

A line on stderr in a check cell costs a student all points in nbgrader, and a displayed number can be read as a grade,
so nothing may get past: Python's streams, streams that were kept by others (logging), C libraries that write to the
file descriptors, IPython's ``display``. What stands in for a stream or a publisher can all that the real one can, so
that no answer fails for being watched.
"""

import builtins
import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

from course_utils.base.text import plain_text

LIMIT = 2000  # characters of an answer's output that are kept; a card is for reading


def quiet_thread(work: Callable[[], None], name: str) -> Thread:
    """A daemon thread, not yet started, that keeps no way to its work: an answer can look at all threads there are."""
    kept = [work]
    return Thread(target=lambda: kept.pop()(), name=name, daemon=True)


class _Text:
    """Keeps the first ``LIMIT`` characters and counts the rest, until it ``is_over``."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: list[str] = []
        self._room = LIMIT
        self.length = 0
        self.is_over = False

    def add(self, text: str) -> None:
        with self._lock:
            self.length += len(text)
            if self._room > 0:
                self._kept.append(text[: self._room])
                self._room -= len(text)

    def text(self) -> str:
        with self._lock:
            kept = "".join(self._kept)
        left_out = self.length - len(kept)
        return plain_text(kept) + (f"\n... and {left_out:,} more characters" if left_out else "")


class _Stream(io.TextIOBase):
    """Stands in for a stream; what it lacks is the real one's.

    It can outlive the check, in a handler of the logging module for example, and then hands everything on.
    """

    encoding, errors = "utf-8", "replace"

    def __init__(self, text: _Text, real: Any, descriptor: int) -> None:
        super().__init__()
        self._text, self._real, self._descriptor = text, real, descriptor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def write(self, text: str) -> int:
        if not issubclass(type(text), str):
            raise TypeError(f"write() argument must be str, not {type(text)}")
        if self._text.is_over:
            return self._real.write(text)
        text = str.__str__(text)
        self._text.add(text)
        return len(text)

    def flush(self) -> None:
        if self._text.is_over:
            self._real.flush()

    def fileno(self) -> int:
        with contextlib.suppress(OSError):  # closed, as under pythonw
            os.fstat(self._descriptor)
            return self._descriptor
        raise io.UnsupportedOperation("fileno")

    def close(self) -> None:
        """Nothing: an answer that closes its stdout would silence everyone after it."""

    def writable(self) -> bool:
        return True


class _Descriptors:
    """Sends file descriptors 1 and 2 to a ``_Text`` through a pipe."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        self._saved: list[tuple[int, int]] = []
        self._reader: Thread | None = None

    def start(self) -> None:
        try:
            read_end, write_end = os.pipe()
        except OSError:  # out of descriptors: Python's own streams are still captured
            return
        reader = quiet_thread(functools.partial(self._drain, read_end), "capture")
        try:
            reader.start()
        except BaseException:
            os.close(read_end)
            os.close(write_end)
            raise
        self._reader = reader
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):  # closed, as under pythonw: nothing can be written there either
                self._saved.append((descriptor, os.dup(descriptor)))
                os.dup2(write_end, descriptor)
        os.close(write_end)

    def _drain(self, read_end: int) -> None:
        with open(read_end, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                self._text.add(chunk.decode("utf-8", "replace"))

    def write(self, text: str, stream: Any) -> bool:
        """Writes to where the stream's descriptor led before; False where the stream has another one or none."""
        try:
            saved = dict(self._saved)[stream.fileno()]
        except (AttributeError, KeyError, OSError, ValueError):
            return False
        return os.write(saved, text.encode()) > 0

    def stop(self) -> None:
        for descriptor, saved in self._saved:
            os.dup2(saved, descriptor)
            os.close(saved)
        self._saved.clear()
        if self._reader is not None:
            # A child process that the answer left running keeps the pipe open: do not wait for it for ever.
            self._reader.join(timeout=1.0)


@functools.cache
def _publisher_class() -> type:
    from IPython.core.displaypub import DisplayPublisher

    class Publisher(DisplayPublisher):
        """Keeps the text of what is displayed; what it lacks (``set_parent``, ``register_hook``) is the real one's."""

        def __init__(self, text: _Text, real: Any) -> None:
            super().__init__()
            self._text, self._real = text, real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def publish(
            self,
            data: dict,
            metadata: dict | None = None,
            source: object = None,
            *,
            transient: dict | None = None,
            update: bool = False,
            **_: Any,
        ) -> None:
            content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
            if self._passes("update_display_data" if update else "display_data", content):
                shown = data.get("text/plain", "<display>")
                self._text.add(f"{shown if type(shown) is str else '<display>'}\n")

        def clear_output(self, wait: bool = False) -> None:
            self._passes("clear_output", {"wait": wait})

        def _passes(self, kind: str, content: dict) -> bool:
            """Whether no hook that was registered with ipykernel's publisher keeps the message to itself."""
            message: Any = {"header": {"msg_type": kind}, "msg_type": kind, "content": content}
            for hook in getattr(self._real, "_hooks", ()):
                message = hook(message)
                if message is None:
                    return False
            return True

    return Publisher


def _refuse_input(prompt: object = "", /) -> str:
    raise RuntimeError("input() is not available while an answer is checked: nobody could type the reply.")


def _refuse_exit(*_: object) -> None:
    raise SystemExit("quit() and exit() would end the kernel.")


class Capture:
    """A context manager around the calls of an answer. ``text()`` says what came out, also after it has ended.

    Not reentrant. ``tell`` is for messages that must get through while it lasts.

    Raises:
        RuntimeError, MemoryError: on entering, the machine gives no thread; nothing is changed then.
    """

    def __init__(self) -> None:
        self._text = _Text()
        self._undo = contextlib.ExitStack()
        self._stdout, self._descriptors = sys.stdout, _Descriptors(self._text)

    def __enter__(self) -> "Capture":
        self._stdout = sys.stdout
        # The last two are written to by who wants to get past a notebook's streams, and keep a buffer of their own.
        streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        with contextlib.ExitStack() as undo:
            # Flush first, so that what was printed before the check is not taken for the answer's.
            for stream in streams:
                _flush(stream)
            undo.callback(setattr, self._text, "is_over", True)
            undo.callback(self._descriptors.stop)
            self._descriptors.start()
            for stream in streams:
                undo.callback(_flush, stream)
            for descriptor, name in ((1, "stdout"), (2, "stderr")):
                real = getattr(sys, name)
                undo.callback(setattr, sys, name, real)
                stand_in = _Stream(self._text, real, descriptor)
                # Handlers of the logging module keep the stream itself; a notebook's stream can be redirected.
                if name == "stderr" and type(real).__module__.startswith("ipykernel"):
                    _replace(undo, real, "write", stand_in.write)
                setattr(sys, name, stand_in)
            _replace(undo, builtins, "input", _refuse_input)
            self._capture_ipython(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def tell(self, line: str) -> None:
        """Prints a line on the learner's own stdout; in a terminal, past the pipe that took the descriptor's place."""
        with contextlib.suppress(OSError, ValueError):  # the stream may be closed
            if not self._descriptors.write(f"{line}\n", self._stdout):
                print(line, file=self._stdout, flush=True)

    def text(self) -> str:
        """What was printed, displayed or written to the file descriptors, cut to ``LIMIT`` characters."""
        return self._text.text().strip("\n")

    def _capture_ipython(self, undo: contextlib.ExitStack) -> None:
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        if shell is None:
            return
        _replace(undo, shell, "display_pub", _publisher_class()(self._text, shell.display_pub))
        _replace(undo, shell, "ask_exit", _refuse_exit)
        # ipywidgets' Output shows an error itself, which would stand in the cell as if the check had failed.
        _replace(undo, shell, "_showtraceback", lambda kind, error, lines: self._text.add("\n".join([*lines, ""])))


def _replace(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    if name in getattr(owner, "__dict__", {}) or (hasattr(owner, "has_trait") and owner.has_trait(name)):
        undo.callback(setattr, owner, name, getattr(owner, name))
    else:
        undo.callback(lambda: delattr(owner, name) if name in vars(owner) else None)
    setattr(owner, name, value)


def _flush(stream: Any) -> None:
    # A closed or foreign stream has nothing to flush.
    with contextlib.suppress(ValueError, AttributeError, OSError):
        stream.flush()

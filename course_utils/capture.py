"""Keeps what an answer prints, warns or displays away from the learner's cell, and hands it over as text (``Capture``).

A line on stderr in a check cell costs a student all points in nbgrader, and a displayed number can be read as a grade,
so nothing may get past: Python's streams, streams that were kept by others (logging), C libraries that write to the
file descriptors, IPython's ``display``. Imports nothing of the course.
"""

import builtins
import contextlib
import io
import os
import sys
import threading
from typing import Any

LIMIT = 2000  # characters of an answer's output that are kept; a card is for reading


class _Text(io.TextIOBase):
    """A stream that keeps the first ``LIMIT`` characters and counts the rest."""

    encoding, errors = "utf-8", "replace"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kept: list[str] = []
        self._room = LIMIT
        self.length = 0

    def write(self, text: str) -> int:
        text = str(text)
        with self._lock:
            self.length += len(text)
            if self._room > 0:
                self._kept.append(text[: self._room])
                self._room -= len(text)
        return len(text)

    def close(self) -> None:
        """Nothing: an answer that closes its stdout would silence everyone after it."""

    def writable(self) -> bool:
        return True

    def text(self) -> str:
        with self._lock:
            kept = "".join(self._kept)
        left_out = self.length - len(kept)
        return kept + (f"\n... and {left_out:,} more characters" if left_out else "")


class _Descriptors:
    """Sends file descriptors 1 and 2 to a ``_Text`` through a pipe."""

    def __init__(self, text: _Text) -> None:
        self._text = text
        self._saved: list[tuple[int, int]] = []
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        try:
            read_end, write_end = os.pipe()
        except OSError:  # out of descriptors: Python's own streams are still captured
            return
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):  # closed, as under pythonw: nothing can be written there either
                self._saved.append((descriptor, os.dup(descriptor)))
                os.dup2(write_end, descriptor)
        os.close(write_end)
        self._reader = threading.Thread(target=self._drain, args=(read_end,), name="capture", daemon=True)
        self._reader.start()

    def _drain(self, read_end: int) -> None:
        with open(read_end, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                self._text.write(chunk.decode("utf-8", "replace"))

    def stop(self) -> None:
        for descriptor, saved in self._saved:
            os.dup2(saved, descriptor)
            os.close(saved)
        self._saved.clear()
        if self._reader is not None:
            # A child process that the answer left running keeps the pipe open: do not wait for it for ever.
            self._reader.join(timeout=1.0)


def _refuse_input(prompt: object = "", /) -> str:
    raise RuntimeError("input() is not available while an answer is checked: nobody could type the reply.")


def _refuse_exit(*_: object) -> None:
    raise SystemExit("quit() and exit() would end the kernel.")


class Capture:
    """A context manager around the calls of an answer. ``text()`` says what came out, also after it has ended.

    Not reentrant. The learner's own stdout is at ``stdout`` while it lasts, for messages that must get through.
    """

    def __init__(self) -> None:
        self._text = _Text()
        self._undo = contextlib.ExitStack()
        self.stdout = sys.stdout

    def __enter__(self) -> "Capture":
        self.stdout = sys.stdout
        with contextlib.ExitStack() as undo:
            # Flush first, so that what was printed before the check is not taken for the answer's.
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            descriptors = _Descriptors(self._text)
            undo.callback(descriptors.stop)
            descriptors.start()
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                undo.callback(setattr, sys, name, stream)
                undo.callback(_flush, stream)
                # Handlers of the logging module keep the stream itself; a notebook's stream can be redirected.
                if name == "stderr" and type(stream).__module__.startswith("ipykernel"):
                    self._replace(undo, stream, "write", self._text.write)
                setattr(sys, name, self._text)
            self._replace(undo, builtins, "input", _refuse_input)
            self._capture_ipython(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def text(self) -> str:
        """What was printed, displayed or written to the file descriptors, cut to ``LIMIT`` characters."""
        return self._text.text().strip("\n")

    def _capture_ipython(self, undo: contextlib.ExitStack) -> None:
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        if shell is None:
            return
        from IPython.core.displaypub import CapturingDisplayPublisher

        publisher = CapturingDisplayPublisher()
        self._replace(undo, shell, "display_pub", publisher)
        self._replace(undo, shell, "ask_exit", _refuse_exit)
        undo.callback(lambda: [self._text.write(_plain(output)) for output in publisher.outputs])

    @staticmethod
    def _replace(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
        if name in getattr(owner, "__dict__", {}) or hasattr(type(owner), "traits"):
            undo.callback(setattr, owner, name, getattr(owner, name))
        else:
            undo.callback(lambda: delattr(owner, name) if name in vars(owner) else None)
        setattr(owner, name, value)


def _plain(output: dict) -> str:
    return str(output.get("data", {}).get("text/plain", "<display>")) + "\n"


def _flush(stream: Any) -> None:
    # A closed or foreign stream has nothing to flush.
    with contextlib.suppress(ValueError, AttributeError, OSError):
        stream.flush()

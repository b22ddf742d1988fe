"""Memory of one function: a report for each call (``memory_probe``), and bytes by source line (``LineMemory``)."""

import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.text import columns, describe, format_bytes
from course_utils.memory.tracker import MemoryTracker


def memory_probe(
    function: Callable | None = None,
    *,
    known: Any = (),
    device: torch.device | str | None = None,
    engine: str = "auto",
    quiet: bool = False,
) -> Callable:
    """Decorates a function: each call is tracked, its report printed and kept as ``function.memory``.

    Example:
        >>> @memory_probe(quiet=True)
        ... def double(x):
        ...     return x * 2
        >>> _ = double(torch.ones(1000))
        >>> double.memory.requested, double.memory.peak
        (4000, 4000)

    Args:
        function: the function; may be left out, to give the options.
        known: one object for ``MemoryTracker`` or a container of them, beside the call's own arguments.
        device: as of ``MemoryTracker``.
        engine: as of ``MemoryTracker``.
        quiet: keeps the report without printing it.

    Returns:
        The function, decorated; its result and its exceptions are its own. ``memory`` is the ``MemoryReport`` of the
        last call, also of one that raised; None before the first.

    Raises:
        TypeError: what is decorated cannot be called.
        NotImplementedError: at a call of code made by ``torch.compile``, unless the engine is "allocator".
    """
    if function is None:
        return functools.partial(memory_probe, known=known, device=device, engine=engine, quiet=quiet)
    if not callable(function):
        raise TypeError(
            explain(
                f"memory_probe was given {describe(function)}.",
                "a function, as a decorator.",
                try_this="@memory_probe above def train_step(...): ...",
            )
        )

    @functools.wraps(function)
    def probed(*args: Any, **kwargs: Any) -> Any:
        mem = MemoryTracker(known, list(_ownable((args, kwargs))), device=device, engine=engine)
        try:
            with mem:
                return function(*args, **kwargs)
        finally:
            probed.memory = mem.report()  # type: ignore[attr-defined]  # the promised attribute of a function
            if not quiet:
                print(f"{function.__name__}: {probed.memory}")  # type: ignore[attr-defined]  # as above

    probed.memory = None  # type: ignore[attr-defined]  # as above
    return probed


def _ownable(value: Any, depth: int = 0) -> list[Any]:
    """The tensors, modules and optimizers in a call's arguments."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)):
        return [value]
    if depth > 4:
        return []
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in _ownable(item, depth + 1)]
    return []


@dataclass(frozen=True)
class LineUse:
    """What one source line did to the bytes alive.

    Attributes:
        line: its number in the file.
        source: its text.
        hits: how often it ran.
        net: bytes that it left behind, summed over its runs; functions it called included.
        peak: the most bytes alive above the start while it ran; None where it never did.
    """

    line: int
    source: str
    hits: int
    net: int
    peak: int | None


class LineMemory:
    """Bytes by source line of one function, for the calls made inside a ``with`` block.

    Example:
        >>> x = torch.ones(1000)
        >>> def double(x):
        ...     return x * 2
        >>> with LineMemory(double, x) as lines:
        ...     _ = double(x)
        >>> [(line.hits, line.net, line.peak) for line in lines.lines if line.hits]
        [(1, 4000, 4000)]

    Args:
        function: a Python function or method, decorated or not.
        *known: as of ``MemoryTracker``.
        device: as of ``MemoryTracker``.

    Attributes:
        tracker: the ``MemoryTracker`` that counts, with the engine "dispatch".

    Raises:
        TypeError: the object has no Python source lines, as a class, a module or a built-in function; or as of
            ``MemoryTracker``.
        ValueError: as of ``MemoryTracker``.
        NotImplementedError: likewise.

    Limits: Python's tracing (``sys.settrace``) is the block's own, so a debugger or a coverage tool does not see it,
    and the function runs slower. A line that calls another function is charged with what that does.
    """

    def __init__(self, function: Callable, *known: Any, device: torch.device | str | None = None) -> None:
        code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
        if not isinstance(code, CodeType):
            raise TypeError(
                explain(
                    f"LineMemory was given {describe(function)}.",
                    "a function written in Python.",
                    "Only such a function has lines to be charged.",
                    "LineMemory(train_step), with the function itself and not its result.",
                )
            )
        self.tracker = MemoryTracker(*known, device=device, engine="dispatch")
        self._code = code
        self._use: dict[int, list[int]] = {}  # line: hits, net, peak
        self._running: list[int] = []  # the line that each active call is in
        self._counted = 0
        self._before: Any = None

    def __enter__(self) -> "LineMemory":
        self.tracker.__enter__()
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, exc_type: object, exc: Any, traceback: object) -> None:
        sys.settrace(self._before)
        self._before = None
        self._charge()
        self.tracker.__exit__(exc_type, exc, traceback)

    def _on_call(self, frame: FrameType, event: str, arg: object) -> Callable | None:
        if frame.f_code is not self._code:
            return None
        self._charge()
        self._running.append(frame.f_lineno)
        self._use.setdefault(frame.f_lineno, [0, 0, 0])
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, arg: object) -> Callable:
        if event == "line":
            self._charge()
            line = self._running[-1] = frame.f_lineno
            use = self._use.setdefault(line, [0, 0, 0])
            use[0] += 1
            use[2] = max(use[2], self.tracker.current)
        elif event == "return":
            self._charge()
            self._running.pop()
        return self._on_line

    def _charge(self) -> None:
        """Charges what happened since the last look to the line that the innermost call is in."""
        events = self.tracker.events
        new, self._counted = events[self._counted :], len(events)
        if new and self._running:
            use = self._use[self._running[-1]]
            use[1] += sum(event.delta for event in new)
            use[2] = max(use[2], *(event.current for event in new))

    @property
    def lines(self) -> tuple[LineUse, ...]:
        """Every line of the function, in order, with its bytes so far; those that never ran have 0 hits."""
        last = max((line for _, _, line in self._code.co_lines() if line is not None), default=0)
        uses = []
        for line in range(self._code.co_firstlineno, last + 1):
            hits, net, peak = self._use.get(line, (0, 0, 0))
            source = linecache.getline(self._code.co_filename, line).rstrip()
            uses.append(LineUse(line, source, hits, net, peak if hits else None))
        return tuple(uses)

    def __str__(self) -> str:
        rows = [("line", "hits", "net", "peak", "source")]
        for use in self.lines:
            numbers = ("", "", "")
            if use.hits:
                numbers = (str(use.hits), format_bytes(use.net), format_bytes(use.peak or 0))
            rows.append((str(use.line), *numbers, use.source))
        return columns(rows, left=(4,))

    __repr__ = __str__

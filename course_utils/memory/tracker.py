"""Bytes that tensors keep alive, live and to the byte, on any device (``MemoryTracker``)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from course_utils.base import explain
from course_utils.base.text import format_bytes
from course_utils.base.torch_private import sequence_number
from course_utils.memory.cuda import Totals, reset_peaks
from course_utils.memory.known import Known, device_name, look_at_graphs
from course_utils.memory.report import (
    SAVED,
    LineMemory,
    MemoryEvent,
    MemoryReport,
    PhaseMemory,
    Timeline,
    by_line,
    series_of,
)
from course_utils.record.storages import Recorder, Storage


class _Phase:
    """A phase while it is counted."""

    def __init__(self, name: str) -> None:
        self.name, self.begun, self.ended, self.peak_op = name, False, False, ""
        self.start = self.end = self.peak = self.first_event = self.last_event = 0

    def record(self) -> PhaseMemory:
        return PhaseMemory(**{name: value for name, value in vars(self).items() if name not in ("begun", "ended")})


class MemoryTracker:
    """Counts the bytes that tensors keep alive inside a ``with`` block, storage by storage, above those at its start.

    Like ``torch.cuda.memory_allocated`` and ``max_memory_allocated``, but on the CPU and ``meta`` too, exact to the
    byte, and the same in every run.

    Example:
        >>> x = torch.ones(1000, requires_grad=True)
        >>> with MemoryTracker(x) as mem:
        ...     with mem.phase("forward"):
        ...         loss = x.exp().sum()
        ...     with mem.phase("backward"):
        ...         loss.backward()
        >>> [(phase.name, phase.net, phase.peak) for phase in mem.phases]
        [('forward', 4004, 4004), ('backward', 0, 8008)]

    Args:
        *known: modules, optimizers, tensors, and nested containers of them: objects that exist already. Their death or
            growth counts, and their gradients and states get their name in the categories. They are held weakly.
        device: the device to count on. By default that of the first known tensor, else PyTorch's default device. Where
            it has an allocator that can be asked, its totals stand in the report beside the tensors' (which resets the
            peaks that ``torch.cuda.max_memory_allocated`` tells).
        lines: notes which line of yours makes each byte, for ``lines()``.

    Attributes:
        device: the device whose bytes are counted, with its number: ``cpu``, ``cuda:0``, ``meta``.

    Raises:
        TypeError: a known object is no module, optimizer, tensor or container of them.
        ValueError: an unknown device; it is entered a second time, or left in another thread.

    Limits: seen are the operations of the thread that entered the tracker, and those of autograd's threads on its
    behalf; not those of other Python threads or processes. Code made by ``torch.compile`` runs uncompiled meanwhile.
    Not seen is what PyTorch allocates without dispatching an operation: scratch memory inside a kernel, Python scalars
    that autograd saves (8 bytes each) and states of random generators (``unseen`` names these two), storages that
    ``torch.load`` reads, NumPy's and shared memory. So a peak is a lower bound, with one exception: while any dispatch
    mode is active PyTorch runs some formulas of backward (of ``cumprod``, ``sort``, ``gather`` and others) without
    in-place operations, and their peak is then higher than without a tracker. A storage that existed at the start, was
    not named and takes part in no operation inside is not known, so its death does not count.
    """

    def __init__(self, *known: Any, device: torch.device | str | None = None, lines: bool = False) -> None:
        self._known = Known(*known)
        self.device = device_name(device, self._known)
        self._recorder, self._lines = Recorder(lines), lines
        self._lock = threading.RLock()
        self._start: Totals | None = None
        self._totals: Totals | None = None
        self._changes: list[tuple[Storage, int, int, str, int, int]] = []  # with current, phase, time, task
        self._current = self._peak = self._peak_event = 0
        self._peak_op, self._elsewhere, self._unseen = "", dict[str, int](), dict[str, int]()
        self._first_node = 0  # autograd's number of the first node recorded inside
        self._open, self._phases = list[_Phase](), list[_Phase]()
        self._state = "new"

    def __enter__(self) -> "MemoryTracker":
        if self._state != "new":
            raise ValueError(
                explain(
                    "A MemoryTracker was entered for the second time.",
                    "a new tracker for each block.",
                    "Its numbers belong to the block that it watched first.",
                    "with MemoryTracker(...) as mem: ...",
                )
            )
        self._recorder.know(self._known.everything())
        if Totals.exist_for(self.device):
            reset_peaks(self.device)
            self._start = Totals.now(self.device)
        self._first_node = sequence_number()
        self._recorder.__enter__()
        self._state = "open"
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._recorder.__exit__(exc_type, exc, traceback)
        self._totals = self._beside()
        self._recorder.refresh()
        self._state = "closed"
        for phase in reversed([phase for phase in self._phases if not phase.ended]):  # around a running generator, say
            self._recorder.mark(phase)
        self._look()
        self._count()
        self._recorder.close()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Names a part of the block: its bytes are in ``mem.phases`` once it ends, also by an exception.

        Phases may be nested; an event carries the innermost name. A name may be used many times.

        Args:
            name: any text.

        Yields:
            Nothing.

        Raises:
            ValueError: the tracker is not open.
        """
        if self._state != "open":
            state = "closed" if self._state == "closed" else "not entered yet"
            raise ValueError(
                explain(
                    f"mem.phase({name!r}) on a tracker that is {state}.",
                    "a phase inside the tracker's own with block.",
                    try_this=f"with MemoryTracker() as mem:\n    with mem.phase({name!r}): ...",
                )
            )
        phase = _Phase(str(name))
        self._phases.append(phase)
        self._recorder.mark(phase)
        try:
            yield
        finally:
            if self._state == "open":  # else the tracker ended first
                self._recorder.refresh()
                self._note_known()
                self._recorder.mark(phase)

    def _count(self) -> None:
        """Counts what happened since it was called last."""
        with self._lock:
            for storage, delta, time_ns, task in self._recorder.changes():
                if storage is None:
                    self._mark(delta)
                elif storage.device != self.device:
                    self._elsewhere[storage.device] = self._elsewhere.get(storage.device, 0) + delta
                else:
                    self._current += delta
                    name = self._open[-1].name if self._open else ""
                    self._changes.append((storage, delta, self._current, name, time_ns, task))
                    if self._current > self._peak:
                        self._peak, self._peak_op = self._current, storage.op_name
                        self._peak_event = len(self._changes)
                    for phase in self._open:
                        if self._current > phase.peak:
                            phase.peak, phase.peak_op = self._current, storage.op_name

    def _mark(self, phase: _Phase) -> None:
        """A phase begins, or ends where it had begun."""
        if not phase.begun:
            phase.begun, phase.start, phase.peak, phase.first_event = (
                True, self._current, self._current, len(self._changes),
            )  # fmt: skip
            self._open.append(phase)
        elif not phase.ended:
            self._open.remove(phase)
            phase.end, phase.last_event, phase.ended = self._current, len(self._changes), True

    def _note_known(self) -> None:
        self._recorder.note("gradients", self._known.gradients(), all_known=True)
        self._recorder.note("optimizer state", self._known.optimizer_state(), all_known=True)

    def _look(self) -> None:
        """Notes where the bytes alive are now; what is found is the category of a storage from here on."""
        self._note_known()
        self._recorder.note("parameters", self._known.parameters())
        roots = [*self._recorder.living_tensors(), *self._known.tensors()]
        met, self._unseen = look_at_graphs(roots, self._recorder.number, self.device, self._first_node)
        self._recorder.note(SAVED, met)

    def _beside(self) -> Totals | None:
        """What the device's allocator says, above the start."""
        return None if self._start is None else self._totals or Totals.now(self.device).above(self._start)

    @property
    def current(self) -> int:
        """Bytes alive above the start: now while the block runs, at its end afterwards."""
        self._count()
        return self._current

    @property
    def peak(self) -> int:
        """The most bytes alive above the start at any moment so far; at least 0."""
        self._count()
        return self._peak

    @property
    def peak_op(self) -> str:
        """The operation whose result reached the peak, such as ``aten::addmm``; "" where nothing rose."""
        self._count()
        return self._peak_op

    @property
    def phases(self) -> tuple[PhaseMemory, ...]:
        """The phases that have ended, in order of their start."""
        self._count()
        return tuple(phase.record() for phase in self._phases if phase.ended)

    @property
    def events(self) -> tuple[MemoryEvent, ...]:
        """Every change of the bytes alive on the tracked device, in order."""
        self._count()
        numbers, start = dict[int, int](), self._recorder.start_ns
        return tuple(
            MemoryEvent(
                t, storage.op_name, phase, delta, current, numbers.setdefault(storage.number, len(numbers)),
                storage.device, task >= 0, time_ns - start,
            )
            for t, (storage, delta, current, phase, time_ns, task) in enumerate(self._changes)
        )  # fmt: skip

    def lines(self) -> LineMemory:
        """Bytes by the user's line that made them, of every function at once; in backward, the line that asked for it.

        Raises:
            ValueError: the tracker was not asked to note lines.
        """
        if not self._lines:
            raise ValueError("This tracker noted no lines: ask for them with MemoryTracker(..., lines=True).")
        self._count()
        return by_line([change[:2] for change in self._changes])

    def unseen(self) -> dict[str, int]:
        """Bytes that graphs hold now and that no dispatched operation made, by name: not part of ``current``.

        ``boxed scalars``: Python numbers that autograd saved as tensors of 8 bytes. ``RNG states``: copies that
        ``checkpoint`` keeps to replay dropout, 5056 bytes each on the CPU. After the block: what they were at its end.
        """
        if self._state == "open":
            self._look()
        return dict(self._unseen)

    def timeline(self) -> Timeline:
        """Bytes by category after each event, as plain data: what a stacked figure of the run draws.

        Each storage has one category for its whole life, known at the end: while the tracker is open, a storage that
        will be a gradient may still be "other".
        """
        if self._state == "open":
            self._look()
        self._count()
        series = series_of([change[:2] for change in self._changes], self._recorder.places)
        older, start_ns = series.pop("older"), self._recorder.start_ns
        return Timeline(
            self.device,
            {name: tuple(values) for name, values in series.items() if any(values)},
            tuple(older),
            (0, *(current for _, _, current, *_ in self._changes)),
            (0, *(time_ns - start_ns for *_, time_ns, _ in self._changes)),
            self.phases,
            self._peak,
            self._peak_event,
            self._peak_op,
        )

    def report(self) -> MemoryReport:
        """The summary so far, or of the whole block after its end; plain data, which does not change later."""
        timeline, current = self.timeline(), self._current
        beside = self._beside() or Totals(current, current)
        return MemoryReport(
            self.device, current, beside.allocated, beside.reserved, self._peak, timeline.at(-1), self._peak_op,
            timeline.at(self._peak_event), timeline.phases, beside.peak, dict(self._unseen),
            {device: nbytes for device, nbytes in self._elsewhere.items() if nbytes},
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"MemoryTracker on {self.device}, {self._state}: {format_bytes(self.current)} now, "
            f"peak {format_bytes(self.peak)}, {len(self.phases)} phases"
        )

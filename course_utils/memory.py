"""Bytes that tensors keep alive, live and to the byte, on any device (``MemoryTracker``).

What one can do here: track a block of code and its phases (``MemoryTracker``), read what happened
(``MemoryEvent``, ``PhaseMemory``, ``Timeline``, ``MemoryReport``). Imports ``text`` and ``errors``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from course_utils.errors import explain
from course_utils.memory_categories import Marks, categorise
from course_utils.memory_dispatch import Block, DispatchRecorder
from course_utils.memory_known import Known
from course_utils.memory_records import CATEGORIES, MemoryEvent, MemoryReport, PhaseMemory, Timeline
from course_utils.text import describe, format_bytes

__all__ = ["CATEGORIES", "MemoryEvent", "MemoryReport", "MemoryTracker", "PhaseMemory", "Timeline"]


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
        device: the device to count on. By default that of the first known tensor, else PyTorch's default device.
        engine: "dispatch" watches operations (live, any device); "auto" is dispatch, and puts the device's allocator
            beside it where there is one.

    Raises:
        TypeError: a known object is no module, optimizer, tensor or container of them.
        ValueError: an unknown engine or device.

    Limits: seen are the operations of the thread that entered the tracker, and those of autograd's threads on its
    behalf; not those of other Python threads. Not seen is what PyTorch allocates without dispatching an operation:
    scratch memory inside a kernel (so a peak is a lower bound), Python scalars that autograd saves (8 bytes each),
    states of random generators. A storage that existed at the start, was not named and takes part in no operation
    inside is not known, so its death does not count.
    """

    def __init__(self, *known: Any, device: torch.device | str | None = None, engine: str = "auto") -> None:
        if engine not in ("auto", "dispatch"):
            raise ValueError(
                explain(f"MemoryTracker(engine={engine!r}).", "one of the engines: auto, dispatch, allocator.")
            )
        self._known = Known(*known)
        self._device = _device_name(device, self._known)
        self.engine = engine
        self._recorder = DispatchRecorder()
        self._state = "new"
        self._marks = Marks()
        self._position = 0  # changes of the recorder that have been counted
        self._events: list[tuple[Block, int, int, str, int, int]] = []
        self._event_cache: tuple[MemoryEvent, ...] = ()
        self._current = self._peak = 0
        self._peak_block: Block | None = None
        self._peak_event = 0
        self._open: list[_OpenPhase] = []
        self._phases: list[_OpenPhase] = []

    @property
    def device(self) -> str:
        """The device whose bytes are counted."""
        return self._device

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
        self._state = "open"
        self._recorder.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._recorder.__exit__(exc_type, exc, traceback)
        self._state = "closed"
        self._recorder.refresh()
        self._advance()
        while self._open:  # left by an exception or still open in a generator
            self._end_phase(self._open[-1])
        self._marks.note(self._known, self._recorder, last=True)
        self._recorder.close()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Names a part of the block: its bytes are in ``mem.phases`` once it ends, also by an exception.

        Phases may be nested; an event carries the innermost name. A name may be used many times.

        Args:
            name: any text.

        Raises:
            ValueError: the tracker is not open.
        """
        if self._state != "open":
            raise ValueError(
                explain(
                    f"mem.phase({name!r}) on a tracker that is {'closed' if self._state == 'closed' else 'not entered'}.",
                    "a phase inside the tracker's own with block.",
                    try_this=f"with MemoryTracker() as mem:\n    with mem.phase({name!r}): ...",
                )
            )
        self._advance()
        phase = _OpenPhase(str(name), self._current, len(self._events))
        self._open.append(phase)
        self._phases.append(phase)
        try:
            yield
        finally:
            if phase in self._open:  # not so where the tracker ended first, as around a generator
                self._recorder.refresh()
                self._advance()
                while phase in self._open:
                    self._end_phase(self._open[-1])
                self._marks.note(self._known, self._recorder)

    def _end_phase(self, phase: "_OpenPhase") -> None:
        self._open.remove(phase)
        phase.end, phase.last_event = self._current, len(self._events)

    def _advance(self) -> None:
        recorder = self._recorder
        with recorder._folding:
            stop = recorder.fold()
            for position in range(self._position, stop):
                block, delta, time_ns, task = recorder.changes[position]
                if block.device != self._device:
                    continue
                self._current += delta
                name = self._open[-1].name if self._open else ""
                self._events.append((block, delta, self._current, name, time_ns - recorder.start_ns, task))
                if self._current > self._peak:
                    self._peak, self._peak_block, self._peak_event = self._current, block, len(self._events)
                for phase in self._open:
                    if self._current > phase.peak:
                        phase.peak, phase.peak_block = self._current, block
            self._position = stop

    @property
    def current(self) -> int:
        """Bytes alive above the start: now while the block runs, at its end afterwards."""
        self._advance()
        return self._current

    @property
    def peak(self) -> int:
        """The most bytes alive above the start at any moment so far; at least 0."""
        self._advance()
        return self._peak

    @property
    def peak_op(self) -> str:
        """The operation whose result reached the peak, such as ``aten::addmm``; "" where nothing rose."""
        self._advance()
        return self._peak_block.op_name if self._peak_block is not None else ""

    @property
    def phases(self) -> tuple[PhaseMemory, ...]:
        """The phases that have ended, in order of their start."""
        return tuple(phase.record() for phase in self._phases if phase.end is not None)

    @property
    def events(self) -> tuple[MemoryEvent, ...]:
        """Every change of the bytes alive on the tracked device, in order."""
        self._advance()
        known = len(self._event_cache)
        if known < len(self._events):
            numbers: dict[int, int] = {}
            for block, *_ in self._events:
                numbers.setdefault(block.number, len(numbers))
            new = [
                MemoryEvent(t, block.op_name, phase, delta, current, numbers[block.number], block.device, task >= 0, ns)
                for t, (block, delta, current, phase, ns, task) in enumerate(self._events[known:], known)
            ]
            self._event_cache += tuple(new)
        return self._event_cache

    def timeline(self) -> Timeline:
        """Bytes by category after each event, as plain data: what a stacked figure of the run draws.

        Each storage has one category for its whole life, known at the end: while the tracker is open, a storage that
        will be saved for backward may still be "other".
        """
        self._advance()
        if self._state == "open":
            self._marks.note(self._known, self._recorder, last=True)
        category = categorise([event[0] for event in self._events], self._marks)
        names = [*CATEGORIES, "older"]
        sums = dict.fromkeys(names, 0)
        series: dict[str, list[int]] = {name: [0] for name in names}
        for block, delta, *_ in self._events:
            sums[category[block.number]] += delta
            for name in names:
                series[name].append(sums[name])
        older = series.pop("older")
        return Timeline(
            device=self._device,
            categories={name: tuple(values) for name, values in series.items() if any(values)},
            older=tuple(older),
            current=(0, *(event[2] for event in self._events)),
            time_ns=(0, *(event[4] for event in self._events)),
            phases=self.phases,
            peak=self._peak,
            peak_event=self._peak_event,
            peak_op=self.peak_op,
        )

    def report(self) -> MemoryReport:
        """The summary so far, or of the whole block after its end."""
        timeline = self.timeline()
        at_end = {name: values[-1] for name, values in timeline.categories.items()}
        at_peak = {name: values[timeline.peak_event] for name, values in timeline.categories.items()}
        if timeline.older[-1] or timeline.older[timeline.peak_event]:
            at_end["older"], at_peak["older"] = timeline.older[-1], timeline.older[timeline.peak_event]
        return MemoryReport(
            device=self._device,
            engine="dispatch",
            requested=self._current,
            allocated=self._current,
            reserved=None,
            peak=self._peak,
            categories=at_end,
            peak_op=self.peak_op,
            peak_categories=at_peak,
            phases=self.phases,
            elsewhere=self._elsewhere(),
        )

    def _elsewhere(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for block, delta, *_ in self._recorder.changes:
            if block.device != self._device:
                sums[block.device] = sums.get(block.device, 0) + delta
        return {device: nbytes for device, nbytes in sums.items() if nbytes}

    def __repr__(self) -> str:
        return (
            f"MemoryTracker on {self._device}, {self._state}: {format_bytes(self.current)} now, "
            f"peak {format_bytes(self.peak)}, {len(self.phases)} phases"
        )


class _OpenPhase:
    def __init__(self, name: str, start: int, first_event: int) -> None:
        self.name, self.start, self.first_event = name, start, first_event
        self.peak, self.peak_block = start, None
        self.end: int | None = None
        self.last_event = first_event

    def record(self) -> PhaseMemory:
        op = self.peak_block.op_name if self.peak_block is not None else ""
        return PhaseMemory(self.name, self.start, self.end or 0, self.peak, op, self.first_event, self.last_event)


def _device_name(device: torch.device | str | None, known: Known) -> str:
    if device is None:
        first = next(known.everything(), None)
        chosen = first.device if first is not None else torch.get_default_device()
    else:
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                explain(f"MemoryTracker(device={describe(device)}).", "a device, such as cpu, cuda:0, mps or meta.")
            ) from error
    if chosen.type == "cuda" and chosen.index is None:
        chosen = torch.device("cuda", torch.cuda.current_device())
    if chosen.type == "mps" and chosen.index is None:
        chosen = torch.device("mps", 0)
    return str(chosen)

"""Bytes that tensors keep alive, live and to the byte, on any device (``MemoryTracker``).

What one can do here: track a block of code and its phases (``MemoryTracker``), read what happened (``MemoryEvent``,
``PhaseMemory``, ``Timeline``, ``MemoryReport``).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.text import format_bytes
from course_utils.base.torch_private import sequence_number
from course_utils.memory.categories import look_at_graphs
from course_utils.memory.device import device_name
from course_utils.memory.dispatch import DispatchRecorder
from course_utils.memory.known import Known
from course_utils.memory.ledger import Ledger, Phase, PhaseMark
from course_utils.memory.profiler import ProfilerRecorder
from course_utils.memory.records import SAVED, MemoryEvent, MemoryReport, PhaseMemory, Timeline
from course_utils.memory.statistics import Beside, StatisticsRecorder, Totals
from course_utils.memory.summary import build_report, build_timeline
from course_utils.memory.viz import to_memory_viz


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
        engine: "dispatch" watches operations: live, on any device. "allocator" asks the allocator: exact peaks with
            scratch memory inside kernels, and compiled code; on the CPU through ``torch.profiler``, so its figures are
            there after the block only. "auto" is dispatch, with the allocator's totals beside it in the report where
            the device has such (it resets the peaks that ``torch.cuda.max_memory_allocated`` tells).

    Attributes:
        engine: as it was given.

    Raises:
        TypeError: a known object is no module, optimizer, tensor or container of them.
        ValueError: an unknown engine or device; it is entered a second time, or left in another thread; with
            "allocator", the device has none that can be asked, a profiler is running, or a figure of the CPU is asked
            for inside the block.
        NotImplementedError: inside the block, when code made by ``torch.compile`` is called under a dispatch engine.

    Limits: seen are the operations of the thread that entered the tracker, and those of autograd's threads on its
    behalf; not those of other Python threads or processes. Not seen is what PyTorch allocates without dispatching an
    operation: scratch memory inside a kernel, Python scalars that autograd saves (8 bytes each) and states of random
    generators (``unseen`` names these two), storages that ``torch.load`` reads, NumPy's and shared memory. So a peak is
    a lower bound, with one exception: while any dispatch mode is active PyTorch runs some formulas of backward
    (of ``cumprod``, ``sort``, ``gather`` and others) without in-place operations, and their peak is then higher than
    without a tracker. A storage that existed at the start, was not named and takes part in no operation inside is not
    known, so its death does not count.
    """

    def __init__(
        self,
        *known: Any,
        device: torch.device | str | None = None,
        engine: str = "auto",
    ) -> None:
        if engine not in ("auto", "dispatch", "allocator"):
            raise ValueError(
                explain(f"MemoryTracker(engine={engine!r}).", "one of the engines: auto, dispatch, allocator.")
            )
        self._known = Known(*known)
        self._device = device_name(device, self._known)
        self.engine = engine
        self._recorder = _recorder(engine, self._device)
        self._beside: Beside | None = None
        self._ledger = Ledger(self._device)
        self._taken = 0  # items of the recorder's stream that the ledger has counted
        self._unseen: dict[str, int] = {}
        self._first_node = 0  # autograd's number of the first node recorded inside
        self._open: list[Phase] = []
        self._state = "new"

    @property
    def device(self) -> str:
        """The device whose bytes are counted, with its number: ``cpu``, ``cuda:0``, ``meta``."""
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
        if self.engine == "auto" and Totals.exist_for(self._device):
            self._beside = Beside(self._device)
        self._first_node = sequence_number()
        self._recorder.__enter__()
        self._state = "open"
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._recorder.__exit__(exc_type, exc, traceback)
        if self._beside is not None:
            self._beside.finish()
        self._recorder.refresh()
        self._state = "closed"
        for phase in reversed(self._open):  # around a generator that is still running, say
            self._recorder.mark(PhaseMark(phase, begins=False))
        self._open.clear()
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
        phase = Phase(str(name))
        self._open.append(phase)
        self._recorder.mark(PhaseMark(phase, begins=True))
        try:
            yield
        finally:
            if phase in self._open:  # else the tracker ended first
                self._recorder.refresh()
                self._open.remove(phase)
                self._note_known()
                self._recorder.mark(PhaseMark(phase, begins=False))

    def _count(self) -> Ledger:
        if self._state == "open" and not self._recorder.live:
            raise ValueError(
                explain(
                    'A figure was asked of a MemoryTracker(engine="allocator") inside its block.',
                    "that the block has ended.",
                    "The CPU's allocator tells what happened through torch.profiler, afterwards.",
                    'engine="dispatch" for figures at any time; or read them after the with block.',
                )
            )
        with self._recorder.lock:
            stream = self._recorder.stream()
            self._ledger.take(stream[self._taken :])
            self._taken = len(stream)
        return self._ledger

    def _note_known(self) -> None:
        self._recorder.note("gradients", self._known.gradients(), all_known=True)
        self._recorder.note("optimizer state", self._known.optimizer_state(), all_known=True)

    def _look(self) -> None:
        """Notes where the bytes alive are now; what is found is the category of a storage from here on."""
        recorder = self._recorder
        self._note_known()
        recorder.note("parameters", self._known.parameters())
        roots = [*recorder.living_tensors(), *self._known.tensors()]
        met, self._unseen = look_at_graphs(roots, recorder.number, self._device, self._first_node)
        recorder.note(SAVED, met)

    @property
    def current(self) -> int:
        """Bytes alive above the start: now while the block runs, at its end afterwards."""
        return self._count().current

    @property
    def peak(self) -> int:
        """The most bytes alive above the start at any moment so far; at least 0."""
        return self._count().peak

    @property
    def peak_op(self) -> str:
        """The operation whose result reached the peak, such as ``aten::addmm``; "" where nothing rose."""
        block = self._count().peak_block
        return block.op_name if block is not None else ""

    @property
    def phases(self) -> tuple[PhaseMemory, ...]:
        """The phases that have ended, in order of their start."""
        return self._count().phases()

    @property
    def events(self) -> tuple[MemoryEvent, ...]:
        """Every change of the bytes alive on the tracked device, in order."""
        return self._count().events(self._recorder.start_ns)

    def unseen(self) -> dict[str, int]:
        """Bytes that graphs hold now and that no dispatched operation made, by name: not part of ``current``.

        ``boxed scalars``: Python numbers that autograd saved as tensors of 8 bytes. ``RNG states``: copies that
        ``checkpoint`` keeps to replay dropout, 5056 bytes each on the CPU. After the block: what they were at its end.
        """
        self._count()
        if self._state == "open":
            self._look()
        return dict(self._unseen)

    def timeline(self) -> Timeline:
        """Bytes by category after each event, as plain data: what a stacked figure of the run draws.

        Each storage has one category for its whole life, known at the end: while the tracker is open, a storage that
        will be a gradient may still be "other".
        """
        ledger = self._count()
        if self._state == "open":
            self._look()
            ledger = self._count()
        return build_timeline(ledger, self._recorder.places, self._recorder.start_ns)

    def report(self) -> MemoryReport:
        """The summary so far, or of the whole block after its end; plain data, which does not change later."""
        timeline = self.timeline()
        return build_report(
            timeline,
            engine="allocator" if self.engine == "allocator" else "dispatch",
            totals=None if self._beside is None else self._beside.totals(),
            unseen=self._unseen,
            elsewhere=self._ledger.elsewhere,
        )

    def to_memory_viz(self, path: str | os.PathLike[str]) -> None:
        """Writes the run for https://pytorch.org/memory_viz, from any device; see ``memory_viz``.

        Args:
            path: the file to write, such as ``run.pickle``; replaced if it exists.

        Raises:
            OSError: it cannot be written.
        """
        to_memory_viz(self.events, path)

    def __repr__(self) -> str:
        if self._state == "open" and not self._recorder.live:
            return f"MemoryTracker on {self._device}, open"
        return (
            f"MemoryTracker on {self._device}, {self._state}: {format_bytes(self.current)} now, "
            f"peak {format_bytes(self.peak)}, {len(self.phases)} phases"
        )


def _recorder(engine: str, device: str) -> Any:  # an Engine, to be entered
    if engine in ("auto", "dispatch"):
        return DispatchRecorder()
    return ProfilerRecorder() if device == "cpu" else StatisticsRecorder(device)

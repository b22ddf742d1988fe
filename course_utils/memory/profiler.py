"""The CPU's allocator as an engine: what it handed out, read from ``torch.profiler`` afterwards (``ProfilerRecorder``).

Exact where the dispatch engine gives a lower bound: scratch memory inside kernels, compiled code, boxed scalars.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import torch

from course_utils.base.errors import explain
from course_utils.base.torch_private import EventType, RecordFunctionFast, profiler_enabled
from course_utils.graph.storages import storages_of
from course_utils.memory.ledger import Block, Change, Engine, PhaseMark

_MARK = "course_utils phase mark "


class ProfilerRecorder(Engine):
    """Records allocations of the CPU through the profiler; the stream is there once the block has ended.

    Limits: one profiler at a time in a process. Memory taken before the start is unknown to it, so giving it back
    does not count (PyTorch then warns once on stderr). Storages have no names of tensors: what is still alive is told
    apart only as far as known objects reach.
    """

    live = False

    def __init__(self) -> None:
        super().__init__()
        self._marks: list[PhaseMark] = []
        self._alive: dict[int, Block] = {}
        self._profile: Any = None

    def __enter__(self) -> "ProfilerRecorder":
        if profiler_enabled():
            raise ValueError(
                explain(
                    'MemoryTracker(engine="allocator") was entered while a profiler is running.',
                    "no other profiler: PyTorch has one for the whole process.",
                    "The allocator's figures of the CPU come from torch.profiler.",
                    'engine="dispatch", which may be nested; or leave the other profiler first.',
                )
            )
        # acc_events changes nothing in a profile of one piece; before 2.13 there is a warning unless it is given.
        self._profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
        )
        with _without_trace_lines():
            self._profile.__enter__()
        self.start_ns = perf_counter_ns()
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        with _without_trace_lines():
            self._profile.__exit__(None, None, None)
        self._read()
        self._profile = None

    def note(self, place: str, tensors: Iterable[torch.Tensor], all_known: bool = False) -> None:
        # Which is known only at the end of the block.
        numbers = (self.number(storage) for tensor in tensors for storage in storages_of(tensor))
        self.places.setdefault(place, set()).update(number for number in numbers if number is not None)

    def mark(self, mark: PhaseMark) -> None:
        if self._profile is None:
            self._stream.append(mark)
            return
        with RecordFunctionFast(f"{_MARK}{len(self._marks)}"):
            self._marks.append(mark)

    def number(self, storage: torch.UntypedStorage) -> int | None:
        if not self._alive or storage.device.type != "cpu":
            return None
        block = self._alive.get(storage.data_ptr())
        return None if block is None else block.number

    def close(self) -> None:
        self._alive.clear()  # addresses mean nothing once the memory is given to others

    def _read(self) -> None:
        found: list[tuple[int, Any, str, int]] = []
        for event in self._profile.profiler.kineto_results.experimental_event_tree():
            _collect(event, "", -1, found)
        found.sort(key=lambda item: item[0])
        offset = None
        count = 0
        for time_ns, event, op, task in found:
            offset = time_ns - self.start_ns if offset is None else offset
            if op.startswith(_MARK):
                self._stream.append(self._marks[int(op.removeprefix(_MARK))])
                continue
            size, address = event.alloc_size, event.ptr
            if size > 0:
                block = self._alive[address] = Block(count, size, str(event.device), op or "unknown", task)
                count += 1
            else:
                if address not in self._alive:
                    continue
                block = self._alive.pop(address)
                block.died, block.died_task = True, task
            self._stream.append(Change(block, size, time_ns - offset, task))


def _collect(event: Any, op: str, task: int, found: list[tuple[int, Any, str, int]]) -> None:
    """Allocations and marks at and below an event: when, its fields, the outermost operation, the backward pass."""
    kind, fields = event.typed
    if kind == EventType.Allocation:
        found.append((event.start_time_ns, fields, op, task))
    elif event.name.startswith(_MARK):
        found.append((event.start_time_ns, fields, event.name, task))
    elif event.name.startswith("autograd::engine::evaluate_function"):
        task = 0  # the profiler does not number the passes
    elif not op or (event.name.startswith("aten::") and not op.startswith("aten::")):
        op = event.name
    for child in event.children:
        _collect(child, op, task, found)


@contextmanager
def _without_trace_lines() -> Iterator[None]:
    """Holds back the lines that the profiler itself writes to stderr when it starts and stops.

    They are traces (2.13), and complaints that there is no GPU (wheels for CUDA). One line there makes nbgrader take
    all points from a cell. Anything else that was written is passed on.
    """
    with tempfile.TemporaryFile() as held:
        kept = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not line.startswith(b"USDT:") and b"gpuGetDeviceCount failed" not in line:
                    os.write(2, line)

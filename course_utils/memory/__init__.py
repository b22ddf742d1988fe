"""Bytes that tensors keep alive, live and to the byte, on any device (``MemoryTracker``)."""

from course_utils.base import versions as _versions  # noqa: F401  (first: an old torch is refused before it is used)
from course_utils.memory.loops import bytes_alive
from course_utils.memory.report import CATEGORIES, MemoryEvent, MemoryReport, PhaseMemory, Timeline
from course_utils.memory.snapshot import MemorySnapshot, memory_snapshot
from course_utils.memory.tracker import MemoryTracker

__all__ = [
    "CATEGORIES",
    "MemoryEvent",
    "MemoryReport",
    "MemorySnapshot",
    "MemoryTracker",
    "PhaseMemory",
    "Timeline",
    "bytes_alive",
    "memory_snapshot",
]

"""Bytes that tensors keep alive, live and to the byte, on any device (``MemoryTracker``)."""

from course_utils.base import versions as _versions  # noqa: F401  (first: an old torch is refused before it is used)
from course_utils.memory.report import CATEGORIES, MemoryEvent, MemoryReport, PhaseMemory
from course_utils.memory.tracker import MemoryTracker

__all__ = ["CATEGORIES", "MemoryEvent", "MemoryReport", "MemoryTracker", "PhaseMemory"]

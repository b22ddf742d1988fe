"""See what autograd keeps alive, check answers, explain mistakes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from course_utils.base import versions as _versions  # noqa: F401  (first: an old torch is refused before it is used)
from course_utils.base.expected import expect_error, show_warnings
from course_utils.base.text import format_bytes
from course_utils.checks.score import Claim, Score
from course_utils.data import handwritten_digits, soft_histogram
from course_utils.graph import GraphMemory, graph_memory
from course_utils.lesson import Lesson
from course_utils.measure.compare import compare
from course_utils.measure.machine import environment
from course_utils.memory import MemoryEvent, MemoryReport, MemoryTracker, PhaseMemory
from course_utils.memory.snapshot import MemorySnapshot, memory_snapshot
from course_utils.memory.steps import bytes_alive
from course_utils.memory.tools.limit import memory_limit
from course_utils.memory.tools.probe import LineMemory, memory_probe
from course_utils.progress.history import progress, reset_progress

if TYPE_CHECKING:
    from course_utils.clinic import ClinicResult
    from course_utils.draw import plot_bars, plot_graph, plot_memory
    from course_utils.draw.heat_map import plot_heat_map
    from course_utils.draw.hooks import plot_hooks
    from course_utils.draw.lines import plot_lines, plot_trade
    from course_utils.draw.maps import plot_maps
    from course_utils.draw.panels import plot_panels
    from course_utils.drills import drill
    from course_utils.leaks import GrowthReport, watch_growth
    from course_utils.leaks.magics import load_ipython_extension
    from course_utils.memory.caching_allocator import caching_allocator_model

# Loaded when first asked for: not every notebook draws or drills, and every check pays for the import.
_LATER = {
    "GrowthReport": "leaks",
    "watch_growth": "leaks",
    "ClinicResult": "clinic",
    "caching_allocator_model": "memory.caching_allocator",
    "drill": "drills",
    "load_ipython_extension": "leaks.magics",
    "plot_bars": "draw",
    "plot_graph": "draw",
    "plot_heat_map": "draw.heat_map",
    "plot_hooks": "draw.hooks",
    "plot_lines": "draw",
    "plot_maps": "draw.maps",
    "plot_memory": "draw",
    "plot_panels": "draw.panels",
    "plot_trade": "draw.lines",
}

__all__ = [
    "Claim",
    "ClinicResult",
    "GraphMemory",
    "GrowthReport",
    "Lesson",
    "LineMemory",
    "MemoryEvent",
    "MemoryReport",
    "MemorySnapshot",
    "MemoryTracker",
    "PhaseMemory",
    "Score",
    "bytes_alive",
    "caching_allocator_model",
    "compare",
    "drill",
    "environment",
    "expect_error",
    "format_bytes",
    "graph_memory",
    "handwritten_digits",
    "load_ipython_extension",
    "memory_limit",
    "memory_probe",
    "memory_snapshot",
    "plot_bars",
    "plot_graph",
    "plot_heat_map",
    "plot_hooks",
    "plot_lines",
    "plot_maps",
    "plot_memory",
    "plot_panels",
    "plot_trade",
    "progress",
    "reset_progress",
    "show_warnings",
    "soft_histogram",
    "watch_growth",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__

"""See what autograd keeps alive, check answers, explain mistakes."""

from course_utils import versions as _versions  # noqa: F401  (first: an old torch is refused before it is used)
from course_utils.data import handwritten_digits, soft_histogram
from course_utils.draw import plot_graph
from course_utils.draw_lines import plot_lines
from course_utils.exercise import Lesson
from course_utils.expected import expect_error, show_warnings
from course_utils.graph import graph_memory
from course_utils.machine import environment
from course_utils.memory import MemoryTracker
from course_utils.progress import progress, reset_progress
from course_utils.score import Claim, Score
from course_utils.steps import bytes_alive
from course_utils.text import format_bytes

__all__ = [
    "Claim",
    "Lesson",
    "MemoryTracker",
    "Score",
    "bytes_alive",
    "environment",
    "expect_error",
    "format_bytes",
    "graph_memory",
    "handwritten_digits",
    "plot_graph",
    "plot_lines",
    "progress",
    "reset_progress",
    "show_warnings",
    "soft_histogram",
]

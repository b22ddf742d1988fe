"""Figures of what was measured. The only package that knows matplotlib, and it imports it when a figure is drawn."""

from course_utils.draw.drawing import Drawing
from course_utils.draw.graph import plot_graph
from course_utils.draw.history import plot_history
from course_utils.draw.lines import plot_lines, plot_trade
from course_utils.draw.memory import plot_memory
from course_utils.draw.panels import plot_bars

__all__ = ["Drawing", "plot_bars", "plot_graph", "plot_history", "plot_lines", "plot_memory", "plot_trade"]

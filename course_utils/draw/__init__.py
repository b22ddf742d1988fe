"""Figures of what was measured. The only package that knows matplotlib, and it imports it when a figure is drawn."""

from course_utils.draw.figures import plot_bars, plot_graph, plot_memory
from course_utils.draw.history import plot_history
from course_utils.draw.lines import plot_lines
from course_utils.draw.style import Drawing

__all__ = ["Drawing", "plot_bars", "plot_graph", "plot_history", "plot_lines", "plot_memory"]

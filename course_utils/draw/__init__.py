"""Figures of what was measured, each a ``Drawing``: the figure and the same in words.

The only package that knows matplotlib, and it imports it when a figure is drawn.
"""

from course_utils.draw.bars import plot_bars
from course_utils.draw.graph import plot_graph
from course_utils.draw.lines import plot_lines, plot_trade
from course_utils.draw.memory import plot_memory
from course_utils.draw.page import Drawing

__all__ = ["Drawing", "plot_bars", "plot_graph", "plot_lines", "plot_memory", "plot_trade"]

"""See what autograd keeps alive, check answers, explain mistakes."""

from course_utils.data import handwritten_digits as handwritten_digits
from course_utils.data import soft_histogram as soft_histogram
from course_utils.draw import plot_graph as plot_graph
from course_utils.draw_lines import plot_lines as plot_lines
from course_utils.exercise import Lesson as Lesson
from course_utils.expected import expect_error as expect_error
from course_utils.expected import show_warnings as show_warnings
from course_utils.graph import graph_memory as graph_memory
from course_utils.machine import environment as environment
from course_utils.memory import MemoryTracker as MemoryTracker
from course_utils.progress import progress as progress
from course_utils.progress import reset_progress as reset_progress
from course_utils.score import Claim as Claim
from course_utils.score import Score as Score
from course_utils.steps import bytes_alive as bytes_alive
from course_utils.text import format_bytes as format_bytes

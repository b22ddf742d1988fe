"""Lesson 06, gated_branches: its exercises."""

from course_utils.lessons.gated_branches.gated_forward import gated_forward
from course_utils.lessons.gated_branches.hard_gate import hard_gate
from course_utils.lessons.gated_branches.masked_sqrt import masked_sqrt
from course_utils.lessons.gated_branches.predicted_cost import predicted_cost
from course_utils.lessons.gated_branches.route import route

EXERCISES = (gated_forward, predicted_cost, route, masked_sqrt, hard_gate)

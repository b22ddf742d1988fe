"""Lesson 04, volatile_history: its exercises."""

from course_utils.lessons.volatile_history.bounded_evaluation import bounded_evaluation
from course_utils.lessons.volatile_history.port_evaluation import port_evaluation
from course_utils.lessons.volatile_history.predicted_growth import predicted_growth
from course_utils.lessons.volatile_history.volatile_rule import volatile_rule

EXERCISES = (volatile_rule, port_evaluation, bounded_evaluation, predicted_growth)

"""Lesson 02, leaf_tensors: its exercises."""

from course_utils.lessons.leaf_tensors.activation_gradients import activation_gradients
from course_utils.lessons.leaf_tensors.fit_line import fit_line
from course_utils.lessons.leaf_tensors.make_weight import make_weight
from course_utils.lessons.leaf_tensors.predicted_leaves import predicted_leaves
from course_utils.lessons.leaf_tensors.sgd_step import sgd_step

EXERCISES = (predicted_leaves, make_weight, activation_gradients, sgd_step, fit_line)

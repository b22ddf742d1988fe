"""Lesson 09, gradient_accumulation: its exercises."""

from course_utils.lessons.gradient_accumulation.accumulate import accumulate
from course_utils.lessons.gradient_accumulation.accumulated_step import accumulated_step
from course_utils.lessons.gradient_accumulation.apply_gradients import apply_gradients
from course_utils.lessons.gradient_accumulation.histogram_gradient import histogram_gradient

EXERCISES = (accumulate, accumulated_step, apply_gradients, histogram_gradient)

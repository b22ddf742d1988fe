"""Lesson 08, custom_function: its exercises."""

from course_utils.lessons.custom_function.Cube import Cube
from course_utils.lessons.custom_function.LinearFunction import LinearFunction
from course_utils.lessons.custom_function.LowMemorySwish import LowMemorySwish
from course_utils.lessons.custom_function.ReverseGradient import ReverseGradient

EXERCISES = (Cube, ReverseGradient, LowMemorySwish, LinearFunction)

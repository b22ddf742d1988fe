"""Lesson 00, start_here: its exercises."""

from course_utils.lessons.start_here.double import double

EXERCISES = (double,)

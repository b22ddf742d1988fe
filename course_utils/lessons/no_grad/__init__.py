"""Lesson 05, no_grad: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

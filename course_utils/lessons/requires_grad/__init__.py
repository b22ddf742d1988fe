"""Lesson 01, requires_grad: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

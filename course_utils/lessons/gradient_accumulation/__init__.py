"""Lesson 09, gradient_accumulation: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

"""Lesson 08, custom_function: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

"""Lesson 06, gated_branches: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

"""Lesson 07, forward_hooks: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

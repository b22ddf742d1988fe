"""Lesson 04, volatile_history: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

"""Lesson 12, an engine of your own: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

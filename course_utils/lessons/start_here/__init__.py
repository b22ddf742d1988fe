"""Lesson 00, start_here: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

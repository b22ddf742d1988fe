"""Lesson 03, detach: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

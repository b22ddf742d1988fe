"""Lesson 02, leaf_tensors: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

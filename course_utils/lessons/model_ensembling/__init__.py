"""Lesson 10, model_ensembling: its exercises."""

from course_utils.lessons import exercises

EXERCISES = exercises(__file__)

"""Lesson 11, clinic: its exercises."""

from course_utils.lessons import exercises
from course_utils.lessons.clinic.run_clinic import examine as examine
from course_utils.lessons.clinic.run_clinic import symptoms as symptoms

EXERCISES = exercises(__file__)

"""Lesson 11, clinic: its exercises."""

from course_utils.lessons.clinic.diagnosis import diagnosis
from course_utils.lessons.clinic.run_clinic import examine as examine
from course_utils.lessons.clinic.run_clinic import run_clinic
from course_utils.lessons.clinic.run_clinic import symptoms as symptoms

EXERCISES = (diagnosis, run_clinic)

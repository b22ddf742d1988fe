"""Lesson 03, detach: its exercises."""

from course_utils.lessons.detach.mean_loss import mean_loss
from course_utils.lessons.detach.predicted_edit import predicted_edit
from course_utils.lessons.detach.snapshot import snapshot
from course_utils.lessons.detach.stop_gradient_round import stop_gradient_round
from course_utils.lessons.detach.truncated_bptt import truncated_bptt

EXERCISES = (snapshot, predicted_edit, mean_loss, truncated_bptt, stop_gradient_round)

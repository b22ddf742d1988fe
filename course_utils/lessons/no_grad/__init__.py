"""Lesson 05, no_grad: its exercises."""

from course_utils.lessons.no_grad.ema_update import ema_update
from course_utils.lessons.no_grad.evaluate import evaluate
from course_utils.lessons.no_grad.frozen_features import frozen_features
from course_utils.lessons.no_grad.predicted_modes import predicted_modes
from course_utils.lessons.no_grad.stream_predictions import stream_predictions

EXERCISES = (predicted_modes, evaluate, ema_update, stream_predictions, frozen_features)

"""Lesson 10, model_ensembling: its exercises."""

from course_utils.lessons.model_ensembling.ensemble_predict import ensemble_predict
from course_utils.lessons.model_ensembling.ensemble_predict_each import ensemble_predict_each
from course_utils.lessons.model_ensembling.per_sample_gradients import per_sample_gradients
from course_utils.lessons.model_ensembling.train_ensemble import train_ensemble

EXERCISES = (ensemble_predict, ensemble_predict_each, per_sample_gradients, train_ensemble)

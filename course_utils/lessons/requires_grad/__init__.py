"""Lesson 01, requires_grad: its exercises."""

from course_utils.lessons.requires_grad.finetune_parameters import finetune_parameters
from course_utils.lessons.requires_grad.freeze import freeze
from course_utils.lessons.requires_grad.input_gradient import input_gradient
from course_utils.lessons.requires_grad.predicted_flags import predicted_flags
from course_utils.lessons.requires_grad.will_require_grad import will_require_grad

EXERCISES = (predicted_flags, will_require_grad, freeze, finetune_parameters, input_gradient)

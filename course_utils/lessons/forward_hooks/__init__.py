"""Lesson 07, forward_hooks: its exercises."""

from course_utils.lessons.forward_hooks.ablate import ablate
from course_utils.lessons.forward_hooks.activation_bytes import activation_bytes
from course_utils.lessons.forward_hooks.capture import capture
from course_utils.lessons.forward_hooks.grad_cam import grad_cam

EXERCISES = (capture, activation_bytes, ablate, grad_cam)

"""Unlimited practice: small random autograd programs, with questions that the engine answers (``drill``)."""

from course_utils.drills.card import DrillScore
from course_utils.drills.drill import LEVELS, TOPICS, Drill, drill

__all__ = ["LEVELS", "TOPICS", "Drill", "DrillScore", "drill"]

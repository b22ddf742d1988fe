"""Unlimited practice: small random autograd programs, with questions that the engine answers (``drill``)."""

from course_utils.drills.drill import LEVELS, TOPICS, Drill, DrillScore, drill

__all__ = ["LEVELS", "TOPICS", "Drill", "DrillScore", "drill"]

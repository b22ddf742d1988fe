"""A drill seed for every student (``seed_of``, ``seeds_csv``): the same on every machine, another for each student."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from course_utils.classroom.course.spreadsheet import as_csv

SEEDS = 100_000_000  # eight digits: short enough to type, enough that a class of 300 shares none


def seed_of(course_id: str, student: str) -> int:
    """The student's seed, for ``drill("flags", seed=...)``: a whole number of at most eight digits.

    It depends on the two names alone, so that no list needs to be kept. It is no secret: whoever knows both names can
    compute it.

    Example:
        >>> seed_of("autograd-2027", "ada")
        65469882
    """
    digest = hashlib.sha256(f"{course_id}\0{student}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % SEEDS


def seeds_csv(course_id: str, students: Iterable[str]) -> str:
    """Student and seed, a line each, with a heading, as CSV."""
    return as_csv([("student", "seed"), *((student, seed_of(course_id, student)) for student in students)])

"""Grades one submission."""

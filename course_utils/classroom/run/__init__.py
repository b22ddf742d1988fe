"""Grades a class: the command, its workers and what it prints."""

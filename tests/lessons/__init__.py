"""Answers to every exercise: right ones, written differently from the course's own, and wrong ones by misconception."""

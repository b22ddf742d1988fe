"""Where grades go: the gradebook, feedback, exports."""

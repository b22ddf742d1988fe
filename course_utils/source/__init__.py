"""The user's source: its statements, and the line that keeps something (``keeping``)."""

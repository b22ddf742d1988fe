"""Names the line that leaks in anybody's training script (``watch_growth``, ``autograd-control leaks``).

Loads nothing by itself: pytest loads ``pytest_fixture`` in every project beside which the course is installed.
"""

"""Names the line that leaks in anybody's training script (``watch_growth``, ``python -m course_utils.memory``)."""

from course_utils.leaks.findings import Finding, GrowthReport
from course_utils.leaks.watch import watch_growth

__all__ = ["Finding", "GrowthReport", "watch_growth"]

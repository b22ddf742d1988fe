"""Who keeps something, under which name, and which line of the user's put it there (``find``, ``link_of``,
``keeping_line``).
"""

from course_utils.holders.find import find, search_from_users_variables
from course_utils.holders.holder import NOBODY, Holder, Link
from course_utils.holders.lines import as_written, keeping_line
from course_utils.holders.ways import link_of

__all__ = [
    "NOBODY",
    "Holder",
    "Link",
    "as_written",
    "find",
    "keeping_line",
    "link_of",
    "search_from_users_variables",
]

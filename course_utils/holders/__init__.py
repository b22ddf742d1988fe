"""Who keeps something, and under which name (``find``, ``link_of``)."""

from course_utils.holders.find import find, search_from_users_variables
from course_utils.holders.holder import NOBODY, Holder, Link
from course_utils.holders.ways import link_of

__all__ = [
    "NOBODY",
    "Holder",
    "Link",
    "find",
    "link_of",
    "search_from_users_variables",
]

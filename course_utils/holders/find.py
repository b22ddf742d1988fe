"""The ways from the user's variables to storages (``find``): what is likely, and quick to look at, first."""

import logging
from collections.abc import Callable, Iterable
from types import TracebackType

from course_utils.graph.references import probing_alone
from course_utils.holders.roots import roots_in_heap, roots_in_libraries, users_roots
from course_utils.holders.search import Root, Search
from course_utils.holders.unnamed import roots_behind

_LOG = logging.getLogger(__name__)

_FEW = 2_000
"""So many objects of libraries are looked into before less likely holders are."""


def find(storages: Iterable[int], traceback: TracebackType | None = None, seconds: float = 1.0) -> Search:
    """Looks for how each storage is kept: by the user's variables, by those of libraries' running functions, by
    suspended generators, or by nothing but a cycle; given the ``id`` of each, and the traceback of an error that ended
    the program, whose functions' variables are looked at too. It takes so many seconds of the processor's time at most.
    """
    looking = Search(storages)
    for roots, share, most_far in (
        (lambda: users_roots(traceback), seconds / 2, _FEW),
        (roots_in_libraries, seconds / 4, _FEW),
        (roots_in_heap, seconds / 4, 0),
        (lambda: roots_behind(looking.missing), seconds / 4, 0),
    ):
        _run(looking, roots, share, most_far)
    return looking


def search_from_users_variables(
    looking: Search, traceback: TracebackType | None = None, seconds: float = 0.2
) -> Search:
    """Runs a search from the user's variables alone; returns it."""
    _run(looking, lambda: users_roots(traceback), seconds, 0)
    return looking


def _run(looking: Search, roots: Callable[[], Iterable[Root]], seconds: float, most_far: int) -> None:
    if looking.missing:
        with probing_alone():
            try:
                looking.run(roots(), seconds, most_far)
            except Exception as error:  # whatever a user's objects do when they are looked at, their script goes on
                _LOG.debug("the search for holders ended early: %r", error)

"""For pytest: the fixture ``no_growth``, which fails a test whose loop leaves something behind in every call."""

from collections.abc import Iterator
from typing import Any

import pytest


def watch_test() -> Iterator[Any]:
    """Watches a test, which fails where something grows from call to call: with what, who keeps it, and the cure.

    Yields:
        The ``watch_growth``, for ``growth.step()`` in a loop that calls no module.
    """
    from course_utils.leaks.watch import watch_growth  # only a test that asks for it pays for the import

    with watch_growth() as growth:
        yield growth
    report = growth.report()
    if report.verdict == "growing":
        pytest.fail(str(report), pytrace=False)


no_growth = pytest.fixture(watch_test, name="no_growth")

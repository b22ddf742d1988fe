"""Searches of these tests begin at what a script holds, and not at what other tests do."""

import re
import sys

import pytest


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    # They count as the user's modules, hold a million objects, and made each search ten times as long.
    for name in [name for name in sys.modules if re.match(r"tests\.(?!leaks|forks)", name)]:
        monkeypatch.delitem(sys.modules, name)
    yield
    sys.modules.pop("last script", None)

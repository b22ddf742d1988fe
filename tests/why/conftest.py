import sys
from importlib import import_module

import pytest


@pytest.fixture(autouse=True)
def _time_to_look(monkeypatch):
    """A process that has run a thousand tests holds more objects than a learner's, on a machine that is busy."""
    monkeypatch.setattr(import_module("course_utils.why.scene"), "_SECONDS", 30.0)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Modules of tests count as the user's, and what they hold would be the program's."""
    for name in [name for name in sys.modules if name.startswith("tests.") and name != "tests.forks"]:
        monkeypatch.delitem(sys.modules, name)

"""Programs as people write them, with more training and validation after the leak: what a report says of them.

In a program, ``# says: pattern`` and ``# never: pattern`` are regular expressions, in which LINE is the number of the
line that ends in ``# line``; ``# times: 2 text`` says how often a text stands in it.
"""

import re
from pathlib import Path

import pytest

from tests.leaks.drive import SCRIPTS, watched

PROGRAMS = sorted((SCRIPTS.parent / "programs").glob("*.py"))
BY_DAY = ("p03", "p23", "r03", "c01", "f01")


def by_day(path: Path) -> object:
    return pytest.param(path, marks=() if path.stem.startswith(BY_DAY) else pytest.mark.nightly, id=path.stem)


def wanted(text: str, mark: str) -> list[str]:
    return re.findall(rf"^# {mark}: (.*)$", text, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("path", [by_day(path) for path in PROGRAMS])
def test_what_a_report_says(path, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent / "site-packages"))
    text = path.read_text(encoding="utf-8")
    line = next((str(at) for at, one in enumerate(text.splitlines(), 1) if one.endswith("# line")), "")
    report = watched(path)
    said = str(report)
    for pattern in wanted(text, "says"):
        assert re.search(pattern.replace("LINE", line), said), f"{pattern}\n\n{said}"
    for pattern in wanted(text, "never"):
        assert not re.search(pattern, said), f"{pattern}\n\n{said}"
    for many, words in (one.split(" ", 1) for one in wanted(text, "times")):
        assert said.count(words) == int(many), said
    assert report.verdict in wanted(text, "verdict")[0].split(), said

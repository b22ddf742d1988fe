"""Programs as people write them, with more training and validation after the leak: what a report says of them.

In a program, ``# says: pattern`` and ``# never: pattern`` are regular expressions, in which LINE is the number of the
line that ends in ``# line``; ``# times: 2 text`` says how often a text stands in it. With ``# alone`` a program runs in
a process of its own: what others have freed in this one would be taken again before the process grows.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leaks.drive import SCRIPTS, watched

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((SCRIPTS.parent / "programs").glob("*.py"))
BY_DAY = ("p03", "p23", "r03", "c01", "f01")


def by_day(path: Path) -> object:
    return pytest.param(path, marks=() if path.stem.startswith(BY_DAY) else pytest.mark.nightly, id=path.stem)


def wanted(text: str, mark: str) -> list[str]:
    return re.findall(rf"^# {mark}: (.*)$", text, flags=re.MULTILINE)


def in_its_own_process(path: Path, folder: Path) -> tuple[str, str]:
    command = [sys.executable, "-m", "course_utils.leaks", "--json", str(folder / "report.json"), str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    return json.loads((folder / "report.json").read_text())["verdict"], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", [by_day(path) for path in PROGRAMS])
def test_what_a_report_says(path, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(path.parent / "site-packages"))
    text = path.read_text(encoding="utf-8")
    line = next((str(at) for at, one in enumerate(text.splitlines(), 1) if one.endswith("# line")), "")
    if "# alone\n" in text:
        verdict, said = in_its_own_process(path, tmp_path)
    else:
        report = watched(path)
        verdict, said = report.verdict, str(report)
    for pattern in wanted(text, "says"):
        assert re.search(pattern.replace("LINE", line), said), f"{pattern}\n\n{said}"
    for pattern in wanted(text, "never"):
        assert not re.search(pattern, said), f"{pattern}\n\n{said}"
    for many, words in (one.split(" ", 1) for one in wanted(text, "times")):
        assert said.count(words) == int(many), said
    assert verdict in wanted(text, "verdict")[0].split(), said

"""Programs as people write them, with more training and validation after the leak: what a report says of them.

In ``programs.toml``, ``# says: pattern`` and ``# never: pattern`` are regular expressions, in which LINE is the number
of the line that ends in ``# line``; ``# times: 2 text`` says how often a text stands in it. With ``# alone`` a program
runs in a process of its own: what others have freed in this one would be taken again before the process grows. A name
that begins with c is of a program without a leak, with f, p or r of one with a leak that people wrote or reported.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leaks.drive import FOLDER, PROGRAMS, marked, watched, written

# The others are longer, or go a way that one of these goes.
BY_DAY = ("p03", "p23", "r03", "f01", "w_appended", "w_cat_gap_60", "w_copied", "w_emptied", "w_ends", "w_four")
BY_DAY += ("w_holder", "w_in_a", "w_late", "w_librarys", "w_snapshot", "w_three")


def by_day(name: str) -> object:
    return pytest.param(name, marks=() if name.startswith(BY_DAY) else pytest.mark.nightly)


def wanted(text: str, mark: str) -> list[str]:
    return re.findall(rf"^# {mark}: (.*)$", text, flags=re.MULTILINE)


def in_its_own_process(path: Path, folder: Path) -> tuple[str, str]:
    command = [sys.executable, "-m", "course_utils.leaks", "--json", str(folder / "report.json"), str(path)]
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads((folder / "report.json").read_text())["verdict"], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [by_day(name) for name in PROGRAMS])
def test_what_a_report_says(name, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER / "site-packages"))
    path, text = written(name, tmp_path), PROGRAMS[name]
    line = next(map(str, marked(path, "line")), "")
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

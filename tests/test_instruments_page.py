"""docs/instruments.md: every program prints what stands below it, every question leads to its heading."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import course_utils

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/instruments.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", PAGE, flags=re.DOTALL | re.MULTILINE)
# One process for all: PyTorch is imported once. Each program is a file of its own, as a reader would run it.
RUN_ALL = """
import contextlib, io, json, runpy, sys
printed = []
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(path, run_name="__main__")
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each program of the page prints."""
    files = []
    for program, _ in PROGRAMS:
        files.append(tmp_path_factory.mktemp("program") / "example.py")
        files[-1].write_text(program, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", RUN_ALL, *map(str, files)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program_prints_what_the_page_shows(number: int, printed: list[str]) -> None:
    _, shown = PROGRAMS[number]
    assert shown and printed[number].rstrip() == shown.rstrip()


def test_every_question_leads_to_its_heading() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert re.findall(r"\]\(#([^)]+)\)", PAGE) == anchors


def test_every_instrument_of_the_first_table_is_a_public_name() -> None:
    rows = re.findall(r"^\| \[.*\| (.*) \|$", PAGE, flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(names) > 15 and set(names) - {"meta"} <= set(course_utils.__all__)

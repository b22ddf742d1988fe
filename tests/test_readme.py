"""What README.md says is so: its links, its example, its commands. Its table of lessons is made by `make lessons`."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_and_folders_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link}
    folders = set(re.findall(r"`([\w./]+/)`", text)) - {"my_notebooks/"}  # a learner's own
    assert links | folders
    assert [name for name in sorted(links | folders) if not (ROOT / name).exists()] == []


def test_example_prints_what_its_comments_say(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    promised = re.findall(r"^print\(.*\)  # (.+)$", example, flags=re.MULTILINE)
    environment = os.environ | {"COURSE_UTILS_PROGRESS": str(tmp_path / "progress.sqlite3")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == promised
    assert len(promised) == example.count("print(")


def test_the_leak_that_is_shown_is_what_the_command_says(tmp_path: Path) -> None:
    section = README.partition("## Which line of your own script leaks")[2].partition("\n## ")[0]
    script, report = re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)
    assert len(script.splitlines()) == 10
    (tmp_path / "evaluate.py").write_text(script, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "course_utils.memory", "evaluate.py"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0
    assert result.stderr.strip() == report.strip()


def test_commands_without_make_name_modules_that_exist() -> None:
    modules = set(re.findall(r"python -m ([\w.]+)", README))
    assert {"course_utils.workspace", "pip", "pytest"} <= modules
    # Whoever looks for pip turns setuptools' distutils off in this process, and nbgrader no longer loads in it.
    assert [module for module in sorted(modules - {"pip"}) if importlib.util.find_spec(module) is None] == []


def test_first_screen_has_the_sentence_and_the_two_commands() -> None:
    first_screen = README.splitlines()[:20]
    assert any(line.startswith("make lab ") for line in first_screen)
    assert any(line.startswith("make test ") for line in first_screen)


def test_contributing_is_short_enough_to_be_read() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    # Examples are copied rather than read: one is a whole file.
    assert len(re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines()) <= 90

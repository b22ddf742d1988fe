"""What README.md and the pages beside it say is so: links, answers shown, commands. `make lessons` makes its table."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from course_utils.why.pages import page_for
from tests import forks

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ["README.md", "CONTRIBUTING.md", "docs/setup.md", "docs/architecture.md"]
ROOMS = [ROOT, ROOT / "course_utils", ROOT / "course_utils" / "classroom"]  # where the folders that pages name lie
SCRIPTS = {
    "train.py": """\
import torch
x = torch.ones(3, requires_grad=True)
h = torch.tanh(x)
h += 1
h.sum().backward()
""",
    "evaluate.py": """\
import torch
model, total = torch.nn.Linear(64, 1000), 0
for batch in torch.randn(50, 128, 64):
    total += model(batch).norm()
""",
}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_folders_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link}
    folders = set(re.findall(r"`([\w./]+/)`", text)) - {"my_notebooks/", "build/book/"}  # made when they are asked for
    assert [link for link in sorted(links) if not (ROOT / page).parent.joinpath(link).exists()] == []
    assert [name for name in sorted(folders) if not any((room / name).exists() for room in ROOMS)] == []


SHOWN = re.findall(
    r"^```\n(autograd-control [^\n]*)\n```\n.*?^```text\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(("command", "answer"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_answers_as_shown(command: str, answer: str, tmp_path: Path) -> None:
    for name, script in SCRIPTS.items():
        (tmp_path / name).write_text(script, encoding="utf-8")
    _, _, said = forks.ended(tmp_path, forks.start(tmp_path, *shlex.split(command)[1:]))
    assert answer in said


def test_first_screen_has_the_two_commands_and_what_to_ask_after_an_error() -> None:
    first_screen = README.partition("\n## My memory grows\n")[0]
    assert README.count("\n") <= 120 and first_screen.count("\n") <= 60 and len(SHOWN) == 2
    assert re.search(r"^make lab .*\nmake test ", first_screen, flags=re.MULTILINE)
    (messages,) = re.findall(r"## I have an error\n\n```text\n(.*?)```", first_screen, flags=re.DOTALL)
    keys = [page.key for page in map(page_for, messages.splitlines()) if page]
    assert keys == ["modified_in_place", "second_backward", "does_not_require_grad"]


def test_commands_name_modules_that_exist() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    modules = set(re.findall(r"python -m ([\w.]+)", text))
    assert {"course_utils.authoring", "pip", "pytest"} <= modules
    # Whoever looks for pip turns setuptools' distutils off in this process, and nbgrader no longer loads in it.
    assert [module for module in sorted(modules - {"pip"}) if importlib.util.find_spec(module) is None] == []


def test_contributing_is_short_enough_to_be_read() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    # Examples are copied rather than read: one is a whole file.
    assert len(re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines()) <= 90

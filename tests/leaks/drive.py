"""Runs a small program of the tables beside this file, alone or under a watch, as the command does, in this process."""

import gc
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import torch

from course_utils import GrowthReport, watch_growth
from course_utils.base.user_code import count_as_users

FOLDER = Path(__file__).parent
BEFORE = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"
"""What every program begins with."""


def table(name: str) -> dict[str, str]:
    """The programs of a table by their names."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


SCRIPTS, PROGRAMS = table("scripts"), table("programs")


def written(name: str, folder: Path) -> Path:
    """A program as a file of its own in a folder."""
    path = folder / f"{name}.py"
    path.write_text(BEFORE + (SCRIPTS | PROGRAMS)[name], encoding="utf-8")
    return path


def marked(path: Path, mark: str) -> list[int]:
    """The numbers of the lines with a mark, which stands in a comment."""
    text = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(text, 1) if re.search(rf"# {mark}\b", line)]


def run(path: Path) -> None:
    """Runs a script as the main module."""
    count_as_users(str(path))
    module = ModuleType("__main__")
    module.__file__ = str(path)
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    torch.manual_seed(0)
    try:
        exec(code, vars(module))
    finally:
        sys.modules["__main__"] = before
        sys.modules["last script"] = module  # its variables stay to the end of the test, as they would in a process


def watched(path: Path, **options: int) -> GrowthReport:
    """The report on a script, as the command gives it at the end."""
    sys.modules.pop("last script", None)  # freed under the watch, it would be taken off what this one keeps
    gc.collect()  # what other tests have left
    with watch_growth(**options) as growth:
        run(path)
    return growth.report()

"""Runs a script of this folder, alone or under a watch, as the command does, in this process."""

import gc
import sys
from pathlib import Path
from types import ModuleType

import torch

from course_utils import GrowthReport, watch_growth
from course_utils.base.user_code import call_it_the_users

SCRIPTS = Path(__file__).parent / "scripts"


def run(path: Path) -> None:
    """Runs a script as the main module."""
    call_it_the_users(str(path))
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
        sys.modules["last script"] = module  # its variables stay until the next one, as they would in a process


def watched(path: Path, **options: int) -> GrowthReport:
    """The report on a script, as the command gives it at the end."""
    gc.collect()  # what other tests have left
    with watch_growth(**options) as growth:
        run(path)
    return growth.report()


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in SCRIPTS.glob("*.py")):
        print(f"\n=========== {name}")
        print(watched(SCRIPTS / f"{name}.py"))

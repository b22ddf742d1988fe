"""Runs a program of this folder, alone or under a watch, and asks why (``asked``).

A program's head says what is expected: ``# page/cause``, then regular expressions that the cure must have: ``# code:``
for the line of code, ``# cure:`` for the sentence. Lines end in the roles that they have: ``# made``, ``# edited``.
``# after: made`` names the lines that are not asked for without a watch, ``# alone: key`` the cause named then. A
program about a silence asks itself: ``reason = why(w)``.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import torch

from course_utils import watch_why, why
from course_utils.base.user_code import call_it_the_users
from course_utils.why.reason import Reason
from course_utils.why.watch import forget

PROGRAMS = Path(__file__).parent / "programs"
ROLES = {"asked": "asked for", "switched": "switched off"}


@dataclass
class Expected:
    page: str
    cause: str
    code: str = ""
    cure: str = ""
    after: str = ""
    alone: str = ""
    lines: dict[str, int] = field(default_factory=dict)


def expected(path: Path) -> Expected:
    text = path.read_text(encoding="utf-8")
    page, cause = re.match(r"# (\w*)/(\w+)", text).groups()
    found = Expected(page, cause)
    for key, value in re.findall(r"^# (code|cure|after|alone): (.*)$", text, flags=re.MULTILINE):
        setattr(found, key, value)
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.search(r"\S.*  # ([a-z ]+)$", line)
        for role in mark[1].split() if mark else ():
            found.lines[ROLES.get(role, role)] = number
    return found


def asked(path: Path, watched: bool) -> Reason:
    """What ``why`` answers after a program."""
    call_it_the_users(str(path))
    module = ModuleType("__main__")
    module.__file__ = str(path)
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    before, sys.modules["__main__"] = sys.modules["__main__"], module
    torch.manual_seed(0)
    forget()
    try:
        if watched:
            with watch_why():
                exec(code, vars(module))
        else:
            exec(code, vars(module))
        return vars(module)["reason"]
    except RuntimeError as error:
        return why(error)
    finally:
        sys.modules["__main__"] = before
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        torch.set_grad_enabled(True)


def misses(path: Path, watched: bool) -> list[str]:
    """What is not as expected."""
    wanted, reason = expected(path), asked(path, watched)
    found = []
    if wanted.alone and not watched:
        wanted.cause = wanted.alone
    if (reason.page, reason.cause) != (wanted.page, wanted.cause):
        found.append(f"cause {reason.page}/{reason.cause}, not {wanted.page}/{wanted.cause}")
    lines = {role: [site.line for said, site in reason.lines if said == role] for role in wanted.lines}
    for role, line in wanted.lines.items():
        if line not in lines[role] and (watched or role not in wanted.after.split()):
            found.append(f"{role}: {lines[role]}, not {line}")
        if watched and len(lines[role]) > 1:
            found.append(f"{role}: one of {lines[role]}")
    for what in ("code", "cure"):
        if getattr(wanted, what) and not re.search(getattr(wanted, what), getattr(reason, what)):
            found.append(f"{what}: {getattr(reason, what)!r}")
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    paths = [path for path in sorted(PROGRAMS.glob("*.py")) if not names or any(name in path.stem for name in names)]
    bad = 0
    for one in paths:
        for watched in (False, True):
            missed = misses(one, watched)
            bad += bool(missed)
            if missed or "-v" in sys.argv:
                print(f"{'watched' if watched else 'after  '} {one.stem}: {'; '.join(missed) or 'hit'}")
            if "-v" in sys.argv:
                print(asked(one, watched))
    print(f"{2 * len(paths) - bad} of {2 * len(paths)}")

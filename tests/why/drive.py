"""Runs a program of a table, alone or under a watch, and asks why (``asked``, ``misses``).

A table is a text file of ``programs/``. Each entry begins with ``=== name  page/cause``, and may go on with
``# alone: cause`` (what is named without a watch, with its page where that is another; by default no cause),
``# cure: words`` (a regular expression that the cure has), ``# says: words`` (the same of what happened, also alone),
and ``# ask: why(...)`` for a silence. Then comes the program, with ``torch``, ``nn``, ``F`` and ``np`` at hand;
``# %%`` begins another cell. Its lines end in the roles that they have when watched: ``# made``; alone, no other lines
may be named. Where a line is offered to paste, it is pasted, and then the program must run.
"""

import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import torch

from course_utils import watch_why, why
from course_utils.base.user_code import count_as_users
from course_utils.why.log import Log
from course_utils.why.pages import UNKNOWN, Reason
from course_utils.why.watch import latest

PROGRAMS = Path(__file__).parent / "programs"
ROLES = {"switched": "switched off", "asked": "asked for", "nan": "became NaN"}


@dataclass
class Program:
    name: str
    page: str
    cause: str
    text: str
    alone: str = UNKNOWN
    cure: str = ""
    says: str = ""
    ask: str = ""
    lines: dict[str, set[int]] = field(default_factory=dict)


def programs(table: str) -> Iterator[Program]:
    """The entries of a table."""
    for entry in (PROGRAMS / f"{table}.txt").read_text(encoding="utf-8").split("\n=== ")[1:]:
        head, *rest = entry.split("\n")
        name, expected = head.split()
        page, _, cause = expected.partition("/")
        found = Program(name, page, cause, "")
        while rest[0].startswith("# ") and (option := re.match(r"# (alone|cure|says|ask): (.*)", rest[0])):
            setattr(found, option[1], option[2])
            rest.pop(0)
        for number, line in enumerate(rest, 1):
            mark = re.search(r"\S.*  # ([a-zN ]+)$", line)
            for role in mark[1].split() if mark else ():
                found.lines.setdefault(ROLES.get(role, role), set()).add(number)
        found.text = "\n".join(rest).rstrip() + "\n"
        yield found


def forget() -> None:
    """Forgets what the latest watch has seen."""
    latest[0] = Log()


def line_in(reason: Reason, role: str) -> int:
    """The number of the first line with a role; 0 where there is none."""
    return next((site.line for said, site in reason.lines if said == role), 0)


def asked(program: Program, watched: bool, text: str = "") -> Reason | None:
    """What ``why`` answers after a program; None where nothing is wrong with it and nothing is asked."""
    text = text or program.text
    module = ModuleType("__main__")
    vars(module).update(torch=torch, nn=torch.nn, F=torch.nn.functional, np=numpy, why=why)
    cells = _cells(program.name, text)
    before, sys.modules["__main__"] = sys.modules["__main__"], module
    torch.manual_seed(0)
    forget()
    watch: Any = watch_why() if watched else None
    try:
        with watch or torch.random.fork_rng():
            for cell in cells:
                exec(cell, vars(module))
        return eval(program.ask, vars(module)) if program.ask else None
    except Exception as error:
        return why(error)
    finally:
        sys.modules["__main__"] = before
        end_process_group()
        torch.set_grad_enabled(True)


def end_process_group() -> None:
    """Ends the group that a program began."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # gloo's threads have come to their end before their group does
        torch.distributed.destroy_process_group()


def _cells(name: str, text: str) -> list[Any]:
    """A program's cells, each a file of the user's; a line keeps its number."""
    found, above = [], 0
    for cell in text.split("# %%\n"):
        file = str(PROGRAMS / f"{name}_{above}.py")
        padded = "\n" * above + cell
        linecache.cache[file] = len(padded), None, padded.splitlines(keepends=True), file
        count_as_users(file)
        found.append(compile(padded, file, "exec"))
        above += cell.count("\n") + 1
    return found


def misses(program: Program, watched: bool) -> list[str]:
    """What is not as expected."""
    reason = asked(program, watched)
    if reason is None:
        return ["nothing was raised, and nothing is asked"]
    cause, found = program.cause if watched else program.alone, []
    cause = cause if "/" in cause else f"{program.page}/{cause}"
    if f"{reason.page}/{reason.cause}" != cause:
        found.append(f"cause {reason.page}/{reason.cause}, not {cause}")
    named: dict[str, set[int]] = {}
    for role, site in reason.lines:
        named.setdefault(role, set()).add(site.line)
    for role in named | program.lines:
        here, wanted = named.get(role, set()), program.lines.get(role, set())
        if here - wanted or (watched and here != wanted):
            found.append(f"{role}: {sorted(here)}, not {sorted(wanted)}")
    if watched and not re.search(program.cure, reason.cure):
        found.append(f"cure: {reason.cure!r}")
    if not re.search(program.says, said := " ".join(reason.happened)):
        found.append(f"said: {said!r}")
    if reason.code and (after := asked(program, False, pasted(program, reason))) is not None:
        found.append(f"with the line pasted: {after.happened}")
    return found


def pasted(program: Program, reason: Reason) -> str:
    """The program with the offered line in it: in place of the one that edits, or below the backward of each round."""
    lines = program.text.splitlines()
    edited = line_in(reason, "edited") if reason.cause == "inplace_operation" else 0
    at = (edited or line_in(reason, "needed")) - 1
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    new = [f"{indent}{line}" for line in reason.code.splitlines()]
    lines[at : at + 1] = new if edited else [lines[at], *new]
    return "\n".join(lines) + "\n"

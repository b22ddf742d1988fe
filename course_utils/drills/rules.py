r"""What lines of a program do, and the same program without it (``Rule``), read from a text (``rules``).

[maker own] (\w+) = nn\.Parameter\((torch.*)\)$ -> \1 = \2
    `nn.Parameter` raises the flag by itself

The first line is a regular expression for the program's text from some line on; KEY in it is the name that is asked
about. After ``->``, there or in the next line, stands what the matched text is without its effect; ``pass`` where that
is left out. A line ``with:`` says the same in words, where the change does not show itself. The rest says what the line
does: ``{0}`` is the first group, ``{name}`` the name, ``{line}`` the line's number, ``{on}`` that of the last matched
line. In brackets stand

trap, maker   the rank. First it is asked what a line causes; where no such rule decides, what it might be taken to
              cause and does not (trap); else what the line that makes a tensor does anyway (maker)
own           it can decide about what its line makes, and nothing else
key:REGEX     the keys that it can decide
answer:A,B    the answers that it explains, ``_`` for a space
worth:2       how gladly it is asked about, where there is a choice
when:name     a further condition, a function of program, line and key
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from course_utils.drills.programs import Answer

if TYPE_CHECKING:
    from course_utils.drills.page import Page

    When = Callable[[Page, int, str], bool]

CAUSE, TRAP, MAKER = RANKS = ("cause", "trap", "maker")


@dataclass(frozen=True)
class Effect:
    """What one line of a program does, in words, and the program without it; see the module's text."""

    line: int
    words: str
    lines: tuple[str, ...]
    rank: str = CAUSE
    answers: tuple[Answer, ...] = ()
    instead: str = ""
    worth: float = 1.0

    def proof(self, lines: Sequence[str], answer: Answer) -> str:
        """What the answer would be without the effect, as a sentence."""
        other, instead = self.lines[self.line - 1].strip(), self.instead
        if not instead and len(lines) == len(self.lines):
            instead = f"Without line {self.line}" if other in ("pass", "if True:") else f"With `{other}` instead"
        return f" {instead} the answer would be {answer!r}." if instead else ""


@dataclass(frozen=True)
class Rule:
    """What lines of a kind do; see the module's text."""

    on: str
    without: str
    words: str
    rank: str = CAUSE
    about: str = ""
    own: bool = False
    answers: tuple[Answer, ...] = ()
    instead: str = ""
    worth: float = 1.0
    when: When | None = None

    def fits(self, rest: str) -> bool:
        """Whether the line at the start of the text is one of the kind, for some key."""
        return _pattern(self.on, r"\w+").match(rest) is not None

    def __call__(self, page: Page, line: int, key: str) -> Effect | None:
        """The effect of a line on a key, if it has this one."""
        name, rest = name_of(key), page.rest(line)
        indent = " " * indent_of(page.lines[line - 1])
        match = _pattern(self.on, name).match(rest)
        is_own = rest.startswith(f"{key} = ") or not self.own
        if match is None or not is_own or not _pattern(self.about, name).search(key):
            return None
        if self.when is not None and not self.when(page, line, key):
            return None
        without = match.expand(self.without.replace("KEY", name)).replace("\n", "\n" + indent)
        lines = (*page.lines[: line - 1], *(indent + without + rest[match.end() :]).split("\n"))
        facts = {
            "name": name,
            "line": line,
            "on": line + match[0].count("\n"),
            **page.facts,
            **page.facts_of.get(key, {}),
        }
        words, instead = (text.format(*match.groups(), **facts) for text in (self.words, self.instead))
        return Effect(line, words, lines, self.rank, self.answers, instead, self.worth)


@cache
def _pattern(text: str, name: str) -> re.Pattern[str]:
    return re.compile(text.replace("KEY", name), re.MULTILINE)


_HEAD = re.compile(r"(?:\[([\w:,.$|\\ ]+)\] )?(.*?)(?: -> (.*))?")


def rules(text: str, **when: When) -> tuple[Rule, ...]:
    """The rules of a text, in the form that the module's own text shows. ``when``: the conditions by their names."""
    found = []
    for block in re.split(r"\n(?=\S)", text.strip("\n")):
        head, *rows = block.replace("\n    ->", " ->").split("\n")
        options, on, without = _HEAD.fullmatch(head).groups()  # type: ignore[union-attr]
        given: dict[str, str] = dict(option.partition(":")[::2] for option in (options or "").split())
        instead = " ".join(row.strip().removeprefix("with:") for row in rows if row.startswith("    with:"))
        words = " ".join(row.strip() for row in rows if not row.startswith("    with:"))
        answers = [answer.replace("_", " ") for answer in given.get("answer", "").split(",") if answer]
        rule = Rule(
            on,
            without or "pass",
            words,
            next((rank for rank in RANKS if rank in given), CAUSE),
            given.get("key", ""),
            "own" in given,
            tuple({"True": True, "False": False}.get(answer, answer) for answer in answers),
            instead.strip(),
            float(given.get("worth", 1)),
            when[given["when"]] if "when" in given else None,
        )
        found.append(rule)
    return tuple(found)


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def name_of(key: str) -> str:
    """The name that a key is about: that of ``"a counted"`` and of ``"a.grad"`` is ``"a"``."""
    return re.split(r"[ .]", key, maxsplit=1)[0]

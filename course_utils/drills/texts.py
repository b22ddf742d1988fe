"""Programs as texts with holes, to be filled at random (``Texts``), read from one text (``grammar``).

flagged x3: <<new>> = torch.ones(<<2..5>>, requires_grad=True)
flagged x1: <<new>> = torch.<<rand|randn>>(<<2..5>>); <<new>> = torch.ones(1).requires_grad_()
block:
    with torch.no_grad():
        <<flagged>>

``<<a|b>>`` is one of the alternatives, ``<<2..5>>`` a number, ``<<word>>`` one of the texts of that name, as likely as
their weights (``x3``) say, ``<<new>>`` a new name, and ``<<x:=...>>`` stores what it makes as ``<<x>>``. ``$x`` is
the same name in the whole program.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from course_utils.drills.programs import Draw

TOKEN = re.compile(r"\bN\d+_")  # a name before names are drawn: valid Python, so that the program can be run
Grammar = Mapping[str, Mapping[str, float]]


def grammar(text: str) -> Grammar:
    """The texts of each name, with their weights."""
    found: dict[str, dict[str, float]] = {}
    for name, weight, rest in re.findall(r"^(\w[^\n:]*?)(?: x([\d.]+))?:((?: .*)?(?:\n(?: .*)?)*)", text, re.MULTILINE):
        made = rest[1:].rstrip().replace("; ", "\n") if rest.startswith(" ") else textwrap.dedent(rest).strip("\n")
        found.setdefault(name, {})[made] = float(weight or 1)
    return found


class Texts:
    """Fills texts.

    Attributes:
        draw: where the choices come from.
        grammar: the texts of each name.
    """

    def __init__(self, draw: Draw, grammar: Grammar) -> None:
        self.draw, self.grammar = draw, grammar
        self.count, self._named = 0, dict[str, str]()

    def name(self, letter: str = "") -> str:
        """A new name, as a token; for a letter always the same one."""
        if letter in self._named:
            return self._named[letter]
        self.count += 1
        token = f"N{self.count}_"
        if letter:
            self._named[letter] = token
        return token

    def fill(self, text: str, local: dict[str, str] | None = None) -> str:
        """The text with its holes filled. ``local``: what is stored."""
        local, made = {} if local is None else local, ""
        while "<<" in text:
            before, _, text = text.partition("<<")
            end = _closing(text)
            made += before
            last = made.rpartition("\n")[2]
            made += self._hole(text[:end], local).replace("\n", "\n" + (last if last.isspace() else ""))
            text = text[end + 2 :]
        return re.sub(r"\$(\w)", lambda match: self.name(match[1]), made + text)

    def _hole(self, hole: str, local: dict[str, str]) -> str:
        name, is_stored, value = hole.partition(":=")
        if is_stored and name.isidentifier():
            local[name] = self._hole(value, local)
            return ""
        ways = _alternatives(hole)
        if len(ways) > 1:
            return self.fill(self.draw.choice(ways), local)
        if hole in local:
            return local[hole]
        if number := re.fullmatch(r"(\d+)\.\.(\d+)", hole):
            return str(int(number[1]) + self.draw.below(int(number[2]) - int(number[1]) + 1))
        if hole in self.grammar:
            return self.fill(self.draw.weighted(self.grammar[hole]), dict(local))
        return self.fill(hole, local) if "<<" in hole or "$" in hole else self.hole(hole, local)

    def hole(self, word: str, local: Mapping[str, str]) -> str:
        """What fills a hole that is neither in the grammar nor stored."""
        if word != "new":
            raise KeyError(f"nothing is called <<{word}>>")
        return self.name()


def _closing(text: str) -> int:
    """Where the hole ends that is open at the start."""
    depth = 1
    for match in re.finditer("<<|>>", text):
        depth += 1 if match[0] == "<<" else -1
        if not depth:
            return match.start()
    raise ValueError(f"a hole is not closed: {text}")


def _alternatives(hole: str) -> list[str]:
    """The hole's text at its bars, not at those of holes in it."""
    parts, depth = [""], 0
    for piece in re.split(r"(<<|>>|\|)", hole):
        depth += (piece == "<<") - (piece == ">>")
        if piece == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts

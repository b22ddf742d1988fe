"""What ``why`` answers (``Reason``), as a card in a notebook and as text elsewhere."""

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_utils import catalogue
from course_utils.base.document import Block, Shown, card, paragraph, rows, typed
from course_utils.base.files import prose, read_toml
from course_utils.base.markup import BLUE, GREEN, ORANGE
from course_utils.base.user_code import Site
from course_utils.why.pages import pages

FINE = "nothing_wrong"
"""The cause where nothing is wrong."""

LOOK = "To see the line, put `%%why` above the cell and run it again; a script, with `autograd-control why script.py`."

UNKNOWN = "unknown"
"""The cause where it could not be found out."""

_told: set[str] = set()
"""What it was explained of why the engine cares: it is said once."""


@dataclass(eq=False, repr=False)
class Reason(Shown):
    """Why an error was raised, a gradient is missing, or a number is not finite.

    Attributes:
        page: the page's key in the index of errors; "" for a silence.
        cause: the cause's key in that page; for a silence a word for it, ``FINE`` where nothing is wrong, ``UNKNOWN``
            where it was not seen.
        title: what it is about, in a few words.
        happened: what happened, with the user's names and lines; a sentence or more each.
        lines: the user's lines that matter: what each did ("edited"), and where it is.
        cure: the smallest change that mends it.
        code: that change as a line of the user's code; "" where it is none.
        unsure: what could not be known, and how to find out.
        means: why the engine cares.
        explained: where the course explains it: a lesson's name and one of its headings.
        again: ``means`` was shown before, and is left out of the card.
    """

    page: str
    cause: str = ""
    title: str = ""
    happened: list[str] = field(default_factory=list)
    lines: list[tuple[str, Site]] = field(default_factory=list)
    cure: str = ""
    code: str = ""
    unsure: str = ""
    means: str = ""
    explained: tuple[str, ...] = ()
    again: bool = False

    def say(self, *sentences: str) -> None:
        """Adds sentences to what happened, as one paragraph."""
        text = " ".join(sentence for sentence in sentences if sentence)
        self.happened += [text] * bool(text)

    def point(self, role: str, site: Site | None) -> None:
        """Adds a line, where it is known and new in this role."""
        if site is not None and site.file and (role, site) not in self.lines:
            self.lines.append((role, site))

    def done(self, age: str = "") -> "Reason":
        """Itself, with the texts of its page, or of ``silences.toml`` where it has none.

        Args:
            age: how old what was seen is; "" where that need not be said.
        """
        page = next((page for page in pages() if page.key == self.page), None)
        texts = {} if page is not None else silences().get(self.cause, {})
        known = next((one for one in page.causes if one.key == self.cause), None) if page is not None else None
        if page is not None:
            self.title, self.means, self.explained = page.title, page.means, page.explained
            if not self.cause and not self.cure and not self.unsure:
                self.happened += [f"Perhaps: {one.cause} {one.cure}" for one in page.causes[:3]]
        if known is not None:
            self.cure, self.explained = self.cure or known.cure, known.explained
        elif texts:
            self.means, self.cure = prose(texts.get("means", "")), self.cure or prose(texts.get("cure", ""))
            self.explained = tuple(texts.get("explained", ()))
        self.happened = self.happened or [self.title]
        if age and self.lines:
            self.say(f"The lines are as a watch has seen them that ended {age} ago.")
        self.again = (self.page or self.cause) in _told
        _told.add(self.page or self.cause)
        self.cause = self.cause or UNKNOWN
        return self

    def card(self) -> Block:
        """Both forms, made now."""
        blocks = [paragraph(text) for text in self.happened]
        blocks += [rows([(role, f"{site}  {site.source}".rstrip()) for role, site in self.lines])] * bool(self.lines)
        blocks += [paragraph(self.unsure, "Not known")] * bool(self.unsure)
        blocks += [paragraph(self.means, "Why")] * (bool(self.means) and not self.again)
        blocks += [paragraph(self.cure, "Do this")] * bool(self.cure)
        blocks += [typed(self.code, "As a line of yours")] * bool(self.code)
        if self.explained:
            lesson, heading = self.explained
            blocks.append(paragraph("The course on it: ", link=(catalogue.notebook(lesson), heading)))
        colour = GREEN if self.cause == FINE else BLUE if self.cause == UNKNOWN else ORANGE
        return card(self.title, blocks, colour)

    def line(self, role: str) -> int:
        """The number of the first line with a role; 0 where there is none."""
        return next((site.line for said, site in self.lines if said == role), 0)


@functools.cache
def silences() -> Mapping[str, Any]:
    """The texts of ``silences.toml``."""
    return read_toml(Path(__file__).with_name("silences.toml"))


def where(site: Site | None) -> str:
    """A line in words, to be put after a verb: `` in line 4, `h += 1` ``; "" where it is not known."""
    return f" in {place(site)}, `{site.source}`" if site is not None and site.file else ""


def place(site: Site) -> str:
    """A line in words: ``line 4``; with its file or cell where that is not the main one."""
    if not site.file:
        return "a line that is not yours"
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    shown = str(site)
    if shown.startswith("Cell "):
        return f"line {site.line} of {shown.partition(',')[0].replace('Cell', 'cell')}"
    return f"line {site.line}" + (f" of {os.path.basename(site.file)}" if main and site.file != main else "")


def begin(text: str) -> str:
    """A text as a sentence begins with it."""
    return text[:1].upper() + text[1:]


def listed(names: list[str]) -> str:
    """Names in words: `` `a`, `b` and `c` ``."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)

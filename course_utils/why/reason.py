"""What ``why`` answers (``Reason``), as a card in a notebook and as text elsewhere."""

import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_utils import catalogue
from course_utils.base.document import Block, Shown, card, paragraph, rows, typed
from course_utils.base.files import prose, read_toml
from course_utils.base.markup import BLUE, GREEN, ORANGE
from course_utils.base.user_code import Site
from course_utils.why.pages import Cause, pages

FINE = "nothing_wrong"
"""The cause where nothing is wrong."""

LOOK = "To see which, run it again under `with watch_why():`, or as `autograd-control why script.py`, which watches."

UNKNOWN = "unknown"
"""The cause where it could not be found out."""


@dataclass(frozen=True, repr=False)
class Reason(Shown):
    """Why an error was raised, a gradient is missing, or a number is not finite.

    Attributes:
        page: the page's key in the index of errors; "" for a silence.
        cause: the cause's key in that page; for a silence a word for it, ``FINE`` where nothing is wrong.
        title: what it is about, in a few words.
        happened: what happened, with the user's names and lines; a sentence or more each.
        lines: the user's lines that matter: what each did ("edited"), and where it is.
        means: why the engine cares.
        cure: the smallest change that mends it.
        code: that change as a line of the user's code; "" where it is none.
        explained: where the course explains it: a lesson's name and one of its headings.
        unsure: what could not be known, and how to find out.
    """

    page: str
    cause: str
    title: str
    happened: tuple[str, ...]
    lines: tuple[tuple[str, Site], ...] = ()
    means: str = ""
    cure: str = ""
    code: str = ""
    explained: tuple[str, ...] = ()
    unsure: str = ""

    def card(self) -> Block:
        """Both forms, made now."""
        blocks = [paragraph(text) for text in self.happened]
        shown = [(role, f"{site}  {site.source}".rstrip()) for role, site in self.lines if site.file]
        blocks += [rows(shown)] * bool(shown)
        blocks += [paragraph(self.unsure, "Not known")] * bool(self.unsure)
        blocks += [paragraph(self.means, "Why")] * bool(self.means)
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


@dataclass
class Draft:
    """What a search for the cause has found so far; ``done`` makes a ``Reason`` of it and of the page's texts."""

    page: str
    cause: str = ""
    happened: list[str] = field(default_factory=list)
    lines: list[tuple[str, Site]] = field(default_factory=list)
    cure: str = ""
    code: str = ""
    unsure: str = ""

    def say(self, *sentences: str) -> None:
        """Adds sentences to what happened, as one paragraph."""
        text = " ".join(sentence for sentence in sentences if sentence)
        self.happened += [text] * bool(text)

    def point(self, role: str, site: Site | None) -> None:
        """Adds a line, where it is known and new in this role."""
        if site is not None and site.file and (role, site) not in self.lines:
            self.lines.append((role, site))

    def done(self) -> Reason:
        page = next(page for page in pages() if page.key == self.page)
        text = cause_of(page.causes, self.cause)
        happened = tuple(self.happened) or (text.cause if text is not None else page.title,)
        cure = self.cure or (text.cure if text is not None else page.causes[0].cure)
        explained = text.explained if text is not None else page.explained
        return Reason(
            self.page, self.cause or UNKNOWN, page.title, happened, tuple(self.lines), page.means, cure, self.code,
            explained, self.unsure,
        )  # fmt: skip


def cause_of(causes: Sequence[Cause], key: str) -> Cause | None:
    """The cause of a page that has a key; None where the page has none such."""
    return next((cause for cause in causes if cause.key == key), None)


@functools.cache
def _silences() -> Mapping[str, Any]:
    return read_toml(Path(__file__).with_name("silences.toml"))


def silent(
    cause: str, title: str, happened: str, lines: Iterable[tuple[str, Site | None]] = (), code: str = "",
    cure: str = "", unsure: str = "",
) -> Reason:  # fmt: skip
    """The reason of a silence, with the texts that its cause has in ``silences.toml``."""
    texts = _silences().get(cause, {})
    shown = tuple((role, site) for role, site in lines if site is not None and site.file)
    means, explained = texts.get("means", ""), tuple(texts.get("explained", ()))
    return Reason(
        "",
        cause,
        title,
        (happened,),
        shown,
        prose(means),
        cure or prose(texts.get("cure", "")),
        code,
        explained,
        unsure,
    )


def cure_of_operation(name: str) -> str:
    """What helps where an operation makes a NaN or an infinity; "" where nothing is known of it."""
    return prose(_silences()["operations"].get(name, ""))


def where(site: Site | None) -> str:
    """A line in words, to be put after a verb: `` in line 4, `h += 1` ``; "" where it is not known."""
    return f" in {place(site)}, `{site.source}`" if site is not None and site.file else ""


def listed(sites: Sequence[Site]) -> str:
    """Lines in words: ``line 4``, ``one of the lines 4, 7 and 9``; the file where it is not the same."""
    files = {site.file for site in sites}
    if len(sites) == 1:
        return place(sites[0])
    if len(files) > 1:
        return "one of " + ", ".join(map(str, sites))
    numbers = [str(site.line) for site in sites]
    return f"one of the lines {', '.join(numbers[:-1])} and {numbers[-1]}"


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

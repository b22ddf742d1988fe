"""The index of errors, a text file each (``pages``, ``page_for``), and what ``why`` answers with it (``Reason``)."""

import functools
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_utils import catalogue
from course_utils.base.document import Block, Shown, card, paragraph, rows, typed
from course_utils.base.files import prose, read_toml, require_fields
from course_utils.base.markup import BLUE, GREEN, ORANGE
from course_utils.base.user_code import NOWHERE, Site

ERRORS = Path(__file__).with_name("errors")
SILENCES = read_toml(ERRORS.with_name("silences.toml"))
"""The texts where no error was raised, by the cause, and parts of sentences."""

FINE, UNKNOWN = "nothing_wrong", "unknown"
"""The causes where nothing is wrong, and where it could not be found out."""

LOOK = "To see the line, put `%%why` above the cell and run it again; a script, with `autograd-control why script.py`."

_told: set[str] = set()  # of what it was explained why the engine cares: it is said once


@dataclass(frozen=True)
class Cause:
    """One thing that leads to an error, and one thing to do."""

    key: str  # its name within the page: "optimizer_step"
    cause: str
    cure: str
    explained: tuple[str, ...]  # as the page's, where it has none of its own
    says: str = ""  # a regular expression of what is in the message, or found, where this is the cause


@dataclass(frozen=True)
class ErrorPage:
    """An error or a warning of PyTorch."""

    key: str  # its name in the index, and its file's: "modified_in_place"
    kind: str  # the name of the error's class, or the warning's: "RuntimeError"
    messages: tuple[str, ...]  # parts of what it says, one of which every release's message has
    title: str  # what happened, in the reader's words
    explained: tuple[str, ...]  # a lesson, or "further/detach" for the notebook that goes on from it, and a heading
    program: str  # complete, of at most ten lines, raises it
    prints: str  # what is raised, "RuntimeError: the whole message", on the release that the course pins
    means: str
    causes: tuple[Cause, ...]  # the most frequent first
    about: str = ""  # what it is about: a "backward", "hook", "tensor", or the "block" of a checkpoint
    reads: str = ""  # what the line that raised has to read, ".grad"
    facts: tuple[str, ...] = ()  # a regular expression, and how to say what it finds in a message

    @property
    def warns(self) -> bool:
        """Whether it is a warning, so that the program runs on."""
        return self.kind.endswith("Warning")


@functools.cache
def pages() -> tuple[ErrorPage, ...]:
    """All pages, by their keys.

    Raises:
        ValueError: a file is no TOML, or a field is missing or unknown; the message names the file.
    """
    return tuple(read(path) for path in sorted(ERRORS.glob("*.toml")))


def page_for(message: str) -> ErrorPage | None:
    """The page of an error or a warning, None where the index has none.

    Args:
        message: what PyTorch said, with or without its kind and what stands around it. Spaces and line ends do not
            count: terminals and forms break messages in different places.

    Returns:
        that of an error before that of a warning, and of two the one that more of the message belongs to.
    """
    said = "".join(message.split())
    parts = ((page, "".join(part.split())) for page in pages() for part in page.messages)
    found = [(not page.warns, len(part), page) for page, part in parts if part in said]
    return max(found, key=lambda row: row[:2])[2] if found else None


def read(path: Path) -> ErrorPage:
    """One page. Raises what ``pages`` does."""
    values = read_toml(path)
    needed = {"kind", "messages", "title", "explained", "program", "means", "causes"}
    require_fields(path, "the page", values, needed, {"about", "reads", "prints", "facts"})
    causes = []
    for one in values["causes"]:
        require_fields(path, f"cause {one.get('key', '')!r}", one, {"key", "cause", "cure"}, {"explained", "says"})
        place = tuple(one.get("explained", values["explained"]))
        causes.append(Cause(one["key"], prose(one["cause"]), prose(one["cure"]), place, one.get("says", "")))
    return ErrorPage(
        path.stem, values["kind"], tuple(map(prose, values["messages"])), prose(values["title"]),
        tuple(values["explained"]), values["program"].strip("\n"), values.get("prints", "").strip("\n"),
        prose(values["means"]), tuple(causes), values.get("about", ""), values.get("reads", ""),
        tuple(values.get("facts", ())),
    )  # fmt: skip


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

    def tell(self, text: str, **known: Any) -> None:
        """Adds what happened, and points at the lines that it names.

        Args:
            text: with ``{made}`` for a line of the user's and its source, or ``{made:at}`` for its number alone, which
                is pointed at in the role of that name; ``{names}`` for a list of names, ``{op}`` for anything else.
                A part in brackets is left out where something that it names is not known.
            known: what the names stand for; of lists, four are named.
        """
        for role, value in known.items():
            known[role] = value[:4] if isinstance(value, list) else None if value == NOWHERE else value
            sites = [one for one in (known[role] if isinstance(value, list) else [value]) if isinstance(one, Site)]
            lines = dict.fromkeys((role.replace("_", " "), one) for one in sites if one.file)
            self.lines += [line for line in lines if line not in self.lines]
        while part := re.search(r"\[([^][]*)\]", text):
            whole = all(known[name] for name in re.findall(r"\{(\w+)", part[1]))
            text = text[: part.start()] + part[1] * whole + text[part.end() :]
        text = re.sub(r"\{(\w+)(:at)?\}", lambda name: _in_words(known[name[1]], not name[2]), text)
        self.happened += [text[:1].upper() + text[1:]] * bool(text)

    def done(self, caveat: str = "") -> "Reason":
        """Itself, with the texts of its page, or of ``silences.toml`` where it has none.

        Args:
            caveat: what is to be said of the watch that saw it; "" where nothing is.
        """
        page, texts = next((page for page in pages() if page.key == self.page), None), SILENCES.get(self.cause, {})
        if page is not None:
            self.title, self.means, self.explained = page.title, page.means, page.explained
            known = next((one for one in page.causes if one.key == self.cause), None)
            if known is not None:
                self.cure, self.explained = self.cure or known.cure, known.explained
            elif not self.cause and not self.cure and not self.unsure:
                self.happened += [f"Perhaps: {one.cause} {one.cure}" for one in page.causes[:3]]
        elif texts:
            self.means, self.explained = prose(texts.get("means", "")), tuple(texts["explained"])
        self.cure = self.cure or prose(texts.get("cure", ""))
        self.happened = self.happened or [self.title]
        if caveat and any(role not in ("raised", "needed", "defined") for role, _ in self.lines):
            self.tell("The lines are as a watch has seen them that {caveat}.", caveat=caveat)
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
        return card(self.title, blocks, {FINE: GREEN, UNKNOWN: BLUE}.get(self.cause, ORANGE))


def _in_words(value: Any, whole: bool) -> str:
    """A name, a line (with its source, where it is shown whole), or several, in words."""
    if isinstance(value, list):
        said = [_in_words(one, whole) if isinstance(one, Site) else f"`{one}`" for one in value]
        return " and ".join([", ".join(said[:-1])] * (len(said) > 1) + said[-1:]) or "a line that was not seen"
    if not isinstance(value, Site):
        return "a line that is not yours" if value is None else str(value)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    cell = re.match(r"Cell (.*),", str(value))
    file = f"cell {cell[1]}" if cell else os.path.basename(value.file) if main and value.file != main else ""
    return f"line {value.line}" + f" of {file}" * bool(file) + f", `{value.source}`" * whole

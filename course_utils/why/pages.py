"""The index of errors: what PyTorch's errors and warnings mean, what causes them, and what helps (``pages``,
``page_for``). Each is a text file in ``errors/``.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from course_utils import catalogue
from course_utils.base.files import prose, read_toml, require_fields

ERRORS = Path(__file__).with_name("errors")


@dataclass(frozen=True)
class Cause:
    """One thing that leads to an error, and one thing to do."""

    key: str  # its name within the page: "optimizer_step"
    cause: str
    cure: str
    explained: tuple[str, ...]  # as the page's, where it has none of its own


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

    @property
    def place(self) -> tuple[str, str]:
        """Where it is explained, as notebook and heading: ``("03_detach", "A view, not a copy")``."""
        return (catalogue.notebook(self.explained[0]), self.explained[1])

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
    said = _squeezed(message)
    parts = ((page, _squeezed(part)) for page in pages() for part in page.messages)
    found = [(not page.warns, len(part), page) for page, part in parts if part in said]
    return max(found, key=lambda row: row[:2])[2] if found else None


def read(path: Path) -> ErrorPage:
    """One page.

    Raises:
        ValueError: it is no TOML, or a field is missing or unknown; the message names the file.
    """
    values = read_toml(path)
    needed = {"kind", "messages", "title", "explained", "program", "means", "causes"}
    require_fields(path, "the page", values, needed, {"prints"})
    for fields in values["causes"]:
        require_fields(path, f"cause {fields.get('key', '')!r}", fields, {"key", "cause", "cure"}, {"explained"})
    return ErrorPage(
        key=path.stem,
        kind=values["kind"],
        messages=tuple(map(prose, values["messages"])),
        title=prose(values["title"]),
        explained=tuple(values["explained"]),
        program=values["program"].strip("\n"),
        prints=values.get("prints", "").strip("\n"),
        means=prose(values["means"]),
        causes=tuple(
            Cause(one["key"], prose(one["cause"]), prose(one["cure"]), tuple(one.get("explained", values["explained"])))
            for one in values["causes"]
        ),
    )


def _squeezed(text: str) -> str:
    return "".join(text.split())

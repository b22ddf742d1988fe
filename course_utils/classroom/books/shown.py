"""Students' texts as nbgrader's pages show them, feedback and Formgrader: Markdown without anything that acts
(``markdown``), and no more of a notebook than a page can hold (``Bounded``).

nbconvert's own ``sanitize_html`` does nothing here: nbgrader's templates do not ask for it.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import Any

import bleach  # type: ignore[import-untyped]  # it brings no types
from bleach.css_sanitizer import CSSSanitizer  # type: ignore[import-untyped]  # nor does this part
from jinja2 import pass_context
from jinja2.runtime import Context
from mistune import import_plugin
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

# Some texts take a time that grows with the square of their length; these keep any notebook to a second or two.
LONGEST_MARKED_UP = 3_000  # characters of a cell whose Markdown is rendered, or whose code is coloured
MARKED_UP = 25_000  # and of all Markdown together, and of all code; a lesson with its answers has 15,000 of each
LONGEST_SHOWN = 20_000  # characters of one text
SHOWN = 150_000  # and of all cells together, and again of all that they printed
AS_IT_IS = "as_it_is"  # metadata of a cell whose text is shown without Markdown
ONE_MORE = 200  # characters take as long to show as one more cell, or one more output, itself does

_TAGS = {"p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "span", "div", "a", "img"}
_TAGS |= {"em", "strong", "b", "i", "u", "s", "del", "ins", "mark", "small", "sub", "sup", "kbd", "abbr"}
_TAGS |= {"ul", "ol", "li", "dl", "dt", "dd", "details", "summary"}
_TAGS |= {"table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption"}
_ATTRIBUTES = {
    "a": ["href", "title", "class"],
    "img": ["src", "alt", "title", "width", "height"],
    "ol": ["start"],
    **dict.fromkeys(("code", "div", "span"), ("class",)),  # the colours of code
    **dict.fromkeys(("th", "td"), ("style",)),
}
_CLEANER = bleach.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    protocols={"http", "https", "mailto", "data"},
    css_sanitizer=CSSSanitizer(allowed_css_properties=["text-align"]),
)
_PLUGINS = [name for name in MarkdownWithMath.DEFAULT_PLUGINS if name != "task_lists"]  # which makes form fields


class _Renderer(IPythonRenderer):
    def image(self, text: str, url: str, title: str | None = None) -> str:
        name = url.removeprefix("attachment:")
        if name != url and name not in self.attachments:  # for which nbconvert would raise
            return escape(f"[picture: {text or name}]")
        return super().image(text, url, title)


@pass_context
def markdown(context: Context | dict[str, Any], source: str) -> str:
    """Jinja's filter ``markdown2html``: as nbconvert's own, with only the HTML that shows something."""
    cell = context.get("cell", {})
    if cell and cell.metadata.get(AS_IT_IS) and source == cell.source:
        style = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
        return f'<pre style="{style}">{escape(source)}</pre>'
    attachments = cell.get("attachments", {})
    return _marked_up(source, attachments) if attachments else _lesson_text(source)


def _marked_up(source: str, attachments: dict[str, Any]) -> str:
    renderer = _Renderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return _CLEANER.clean(MarkdownWithMath(renderer, plugins=map(import_plugin, _PLUGINS)).render(source))


@lru_cache(maxsize=256)  # most texts are the lesson's own, the same on every student's page
def _lesson_text(source: str) -> str:
    return _marked_up(source, {})


def unchanged(text: str) -> str:
    """In place of nbconvert's ``strip_files_prefix``, which mends links of IPython 1, and takes seconds for rows of
    brackets."""
    return text


class Bounded(Preprocessor):
    """Shows long texts as they are, without Markdown or colours, and of very long ones the beginning."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        texts, outputs = Room(ONE_MORE), Room(ONE_MORE)
        marked_up = {"markdown": MARKED_UP, "code": MARKED_UP, "raw": 0}  # what is raw would be HTML
        cells, nb.cells = nb.cells, []
        for cell in cells:
            if texts.left <= 0 and "nbgrader" not in cell.metadata:
                continue
            nb.cells.append(cell)
            cell.source = texts.cut(cell.source)
            size, kind = len(cell.source), cell.cell_type
            plain = size > min(LONGEST_MARKED_UP, marked_up[kind])
            marked_up[kind] -= 0 if plain else size
            if kind == "code":
                cell.outputs = [output for output in cell.outputs if outputs.holds(output)]
            elif plain:
                cell.cell_type = "markdown"
            if plain:
                cell.metadata |= {AS_IT_IS: True, "magics_language": "text"}  # the one for Markdown, the other for code
        return nb, resources


class Room:
    """How many characters a page still holds (``left``); each text takes its own, and ``beside`` as many."""

    def __init__(self, beside: int = 0) -> None:
        self.left, self._beside = SHOWN, beside

    def cut(self, text: str) -> str:
        """As much of a text as there is room for."""
        # Half a surrogate pair is nothing that a page can hold.
        shown = text[: max(0, min(LONGEST_SHOWN, self.left))].encode("utf-8", "replace").decode()
        self.left -= len(shown) + self._beside
        left_out = len(text) - len(shown)
        return f"{shown}\n... and {left_out:,} more characters" if left_out else shown

    def holds(self, output: NotebookNode) -> bool:
        """Whether there is room for an output, which is cut to it. A card is the course's own, and short."""
        data = output.get("data", {})
        if "text/html" in data:
            return True
        room = self.left > 0
        if output.output_type == "stream":
            output.text = self.cut(output.text)
        elif output.output_type == "error":
            output.traceback = [self.cut("\n".join(output.traceback))]
        else:
            data.update({kind: self.cut(text) for kind, text in data.items() if kind.startswith("text/")})
        return room

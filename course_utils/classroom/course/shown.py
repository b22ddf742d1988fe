"""Students' texts as nbgrader's pages show them, feedback and Formgrader (``harmless``): Markdown without anything that
acts, long texts as they are, and no page without end.

nbconvert's own ``sanitize_html`` does nothing here: nbgrader's templates do not ask for it.
"""

from __future__ import annotations

from html import escape
from typing import Any

import bleach  # type: ignore[import-untyped]  # it brings no types
from bleach.css_sanitizer import CSSSanitizer  # type: ignore[import-untyped]  # nor does this part
from jinja2 import pass_context
from jinja2.runtime import Context
from mistune import import_plugin
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from traitlets.config import Config

# Some texts take a time that grows with the square of their length.
LONGEST_MARKED_UP = 3_000  # characters of a cell whose Markdown is rendered, or whose code is coloured
LONGEST_SHOWN = 20_000  # characters of a cell
LONGEST_TOGETHER = 500_000  # characters of all cells that are not graded

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
_STYLES = CSSSanitizer(allowed_css_properties=["text-align"])
_CLEANER = bleach.Cleaner(_TAGS, _ATTRIBUTES, {"http", "https", "mailto", "data"}, css_sanitizer=_STYLES)
_PLUGINS = [name for name in MarkdownWithMath.DEFAULT_PLUGINS if name != "task_lists"]  # which makes form fields


class _Renderer(IPythonRenderer):
    def image(self, text: str, url: str, title: str | None = None) -> str:
        name = url.removeprefix("attachment:")
        if name != url and name not in self.attachments:  # for which nbconvert would raise
            return escape(f"[picture: {text or name}]")
        return super().image(text, url, title)


@pass_context
def markdown(context: Context | dict[str, Any], source: str) -> str:
    """Jinja's filter ``markdown2html``: nbconvert's own, with only HTML that shows something; a long text as it is."""
    if len(source) > LONGEST_MARKED_UP:
        return _plain(source)
    attachments = context.get("cell", {}).get("attachments", {})
    renderer = _Renderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return _CLEANER.clean(MarkdownWithMath(renderer, plugins=map(import_plugin, _PLUGINS)).render(source))


def code(source: str, language: str | None = None, metadata: Any = None, **more: Any) -> str:
    """Jinja's filter ``highlight_code``: as nbconvert's own, a long text without colours."""
    return Highlight2HTML()(source, language, metadata, **more) if len(source) <= LONGEST_MARKED_UP else _plain(source)


def _plain(text: str) -> str:
    return f'<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere">{escape(text)}</pre>'


class Bounded(Preprocessor):
    """Cuts a cell that is too long to be shown, and what all cells that are not graded say together."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Changes the notebook's sources; both are given back, as nbconvert asks."""
        room = LONGEST_TOGETHER
        for cell in nb.cells:
            most = LONGEST_MARKED_UP if cell.cell_type == "raw" else LONGEST_SHOWN
            if "nbgrader" not in cell.metadata:
                most = min(most, room)
                room -= min(most, len(cell.source))
            if (more := len(cell.source) - most) > 0:
                cell.source = f"{cell.source[:most]}\n... and {more:,} more characters"
        return nb, resources


def harmless(config: Config) -> None:
    """Has every page that nbgrader makes with these settings show students' texts so."""
    pages = config.HTMLExporter
    filters = {"markdown2html": markdown, "highlight_code": code}
    # nbconvert's own mends links of IPython 1, and takes seconds for rows of brackets.
    pages.filters = {**pages.get("filters", {}), **filters, "strip_files_prefix": lambda text: text}
    pages.preprocessors = list(dict.fromkeys([*pages.get("preprocessors", ()), Bounded]))

"""Students' texts as nbgrader's pages show them, feedback and Formgrader: Markdown without anything that acts
(``markdown``), code (``code``), and long texts as they are.

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
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

# Some texts take a time that grows with the square of their length.
LONGEST_MARKED_UP = 3_000  # characters of a cell whose Markdown is rendered, or whose code is coloured
LONGEST_SHOWN = 20_000  # characters of a cell

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
    """Jinja's filter ``markdown2html``: as nbconvert's own, with only the HTML that shows something; a long text as it
    is."""
    if len(source) > LONGEST_MARKED_UP:
        return _plain(source)
    attachments = context.get("cell", {}).get("attachments", {})
    return _marked_up(source, attachments) if attachments else _lesson_text(source)


def _marked_up(source: str, attachments: dict[str, Any]) -> str:
    renderer = _Renderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return _CLEANER.clean(MarkdownWithMath(renderer, plugins=map(import_plugin, _PLUGINS)).render(source))


@lru_cache(maxsize=256)  # most texts are the lesson's own, the same on every student's page
def _lesson_text(source: str) -> str:
    return _marked_up(source, {})


def code(source: str, language: str | None = None, metadata: Any = None, **more: Any) -> str:
    """Jinja's filter ``highlight_code``: as nbconvert's own, a long text without colours."""
    return Highlight2HTML()(source, language, metadata, **more) if len(source) <= LONGEST_MARKED_UP else _plain(source)


def unchanged(text: str) -> str:
    """In place of nbconvert's ``strip_files_prefix``, which mends links of IPython 1, and takes seconds for rows of
    brackets."""
    return text


def _plain(text: str) -> str:
    left_out = len(text) - LONGEST_SHOWN
    more = f"\n... and {left_out:,} more characters" if left_out > 0 else ""
    style = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
    return f'<pre style="{style}">{escape(text[:LONGEST_SHOWN])}{more}</pre>'

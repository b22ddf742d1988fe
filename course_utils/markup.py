"""Small pieces of HTML and of terminal text, from which the cards are put together: escaped elements (``element``),
prose with `code` in it (``prose``), coloured marks (``mark``), bars (``bar``, ``text_bar``), label-and-value lines
(``html_lines``, ``text_lines``), wrapped text (``wrap``), and text made safe to show (``clean``).

Imports nothing of the course.
"""

import re
import textwrap
from collections.abc import Iterable

# NOTE [Styles that survive]
# A card is shown in four places: JupyterLab with a trusted notebook, JupyterLab with an untrusted one (a copy from a
# teacher or a friend), nbconvert's pages and nbgrader's feedback. Only inline `style` attributes reach all four, and in
# an untrusted notebook only those values that JupyterLab's sanitizer knows: hex colours but no `var(...)`, no
# `currentColor`, no `ch` unit, no `aria-...` or `role`. So every style below is inline and made of such values, and
# nothing that a reader needs hangs on an attribute that may be dropped.
# https://github.com/jupyterlab/jupyterlab/blob/00bc244605004b0dc8900aed7d4ab670a63efeba/packages/apputils/src/sanitizer.ts
#
# NOTE [Colours for two themes]
# No single colour has a contrast of 4.5:1 against both #ffffff and #111111 (the best possible is 4.35:1). So text keeps
# the theme's own colour, always, and colour is only ever a ground that carries its own white sign, or a line or bar,
# which needs 3:1 against the page.
WHITE = "#ffffff"
GREEN = "#00735c"
ORANGE = "#b34700"
GREY = "#6b6b6b"
BLUE = "#2f6fad"

TEXT_WIDTH = 88
MONOSPACE = "menlo,consolas,monospace"

_ANSI = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")
# Control characters, invisible and direction-changing ones, and lone surrogates, which no UTF-8 file can hold.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class Html(str):
    """Text that is HTML already. Every other string is escaped on its way into an element."""


def clean(text: object, limit: int = 1000, lines: int | None = None) -> str:
    """Text made safe to show: terminal colours gone, invisible characters written out, cut to a length.

    Args:
        text: anything; what is no string is turned into one.
        limit: the greatest number of characters; a longer text is cut and says so.
        lines: the greatest number of lines, None for any number.
    """
    shown = _ANSI.sub("", str(text)).replace("\r\n", "\n")
    # A lone "\r" starts the line again, as progress bars do: only what was written last is seen.
    shown = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in shown.split("\n"))
    shown = _UNSEEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), shown)
    rows = shown.split("\n")
    if lines is not None and len(rows) > lines:
        left_out = len(rows) - lines
        return clean("\n".join(rows[:lines]), limit) + f"\n... and {left_out} more line{'s' * (left_out > 1)}"
    return shown if len(shown) <= limit else shown[: limit - 4].rstrip() + " ..."


def escape(text: object) -> Html:
    """The text with `& < > " '` escaped, after ``clean``."""
    shown = text if isinstance(text, str) else str(text)
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;")):
        shown = shown.replace(sign, entity)
    return Html(shown)


def element(name: str, *children: str, style: str = "", **attributes: str) -> Html:
    """One HTML element. Children that are not ``Html`` are escaped, and so are the attributes.

    Example:
        >>> element("p", "1 < 2 ", element("b", "yes"), style="margin:0")
        '<p style="margin:0">1 &lt; 2 <b>yes</b></p>'
    """
    if style:
        attributes["style"] = style
    opening = name + "".join(f' {key.replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    inner = "".join(child if isinstance(child, Html) else escape(child) for child in children)
    return Html(f"<{opening}>{inner}</{name}>")


def prose(text: object, limit: int = 1000) -> Html:
    """Cleaned and escaped text in which `code` between backticks becomes a ``<code>`` element."""
    parts = re.split(r"`([^`\n]+)`", clean(text, limit))
    return Html("".join(element("code", part) if i % 2 else escape(part) for i, part in enumerate(parts)))


def mark(sign: str, ground: str) -> Html:
    """A white sign on a coloured disc. It is decoration: the word beside it says the same."""
    style = (
        f"display:inline-block;width:1.3em;height:1.3em;line-height:1.3em;margin-right:0.5em;border-radius:0.65em;"
        f"text-align:center;font-size:0.8em;font-weight:bold;background-color:{ground};color:{WHITE}"
    )
    return element("span", sign, style=style, aria_hidden="true")


def bar(share: float, width_em: float = 10) -> Html:
    """A bar filled to ``share`` (0 to 1). It is decoration: the number beside it says the same."""
    percent = round(100 * min(max(share, 0.0), 1.0), 1)
    filled = element("span", style=f"display:block;height:0.6em;width:{percent:g}%;background-color:{BLUE}")
    outline = f"display:inline-block;width:{width_em:g}em;height:0.6em;border:1px solid {GREY};border-radius:0.2em"
    return element("span", filled, style=outline + ";overflow:hidden;vertical-align:middle", aria_hidden="true")


def text_bar(share: float, width: int = 20) -> str:
    """A bar of ``width`` characters. Only a share of 1 fills it, and only a share of 0 leaves it empty."""
    filled = round(width * min(max(share, 0.0), 1.0))
    if 0 < share < 1:
        filled = min(max(filled, 1), width - 1)
    return "█" * filled + "░" * (width - filled)


def html_lines(rows: Iterable[tuple[str, str]]) -> Html:
    """Labels and values as a definition list in a typewriter face, the values starting in one column."""
    rows = list(rows)
    # A typewriter character is about 0.6 em wide. Floats, because the sanitizer lets them through everywhere.
    column = 0.62 * max((len(label) for label, _ in rows), default=0) + 1.2
    term = "float:left;clear:left;margin:0;padding:0;font-weight:normal;opacity:0.8"
    value = f"margin:0 0 0 {column:.1f}em;padding:0;white-space:pre-wrap;overflow-wrap:break-word"
    pairs = [
        element("dt", clean(label, 40), style=term) + element("dd", clean(text, 1000, lines=15) or "-", style=value)
        for label, text in rows
    ]
    style = f"margin:0.4em 0;font-family:{MONOSPACE};font-size:0.92em;line-height:1.5"
    return element("dl", *map(Html, pairs), style=style)


def text_lines(rows: Iterable[tuple[str, str]], indent: str = "") -> str:
    """The same as lines of plain text, no wider than a terminal."""
    rows = [(clean(label, 40), clean(text, 1000, lines=15)) for label, text in rows]
    column = max((len(label) for label, _ in rows), default=0) + 2
    lines = []
    for label, text in rows:
        room = TEXT_WIDTH - len(indent) - column
        pieces = [piece for line in text.split("\n") for piece in _pieces(line, room)]
        for i, piece in enumerate(pieces):
            lines.append(f"{indent}{label if i == 0 else '':<{column}}{piece}".rstrip())
    return "\n".join(lines)


def _pieces(line: str, width: int) -> list[str]:
    """One line cut into pieces of at most ``width`` characters, its own spacing kept."""
    options = {"drop_whitespace": False, "replace_whitespace": False, "break_on_hyphens": False}
    return textwrap.wrap(line.expandtabs(4), width, **options) or [""]


def wrap(text: object, first: str = "", rest: str | None = None, limit: int = 1000) -> str:
    """Prose wrapped to the width of a terminal, with ``first`` before its first line and ``rest`` before the others."""
    rest = " " * len(first) if rest is None else rest
    shown = " ".join(clean(text, limit).split())
    return (
        textwrap.fill(shown, TEXT_WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
        or first.rstrip()
    )

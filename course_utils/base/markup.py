"""Small pieces of HTML and of terminal text, from which cards and tables are put together: any text made fit to be
shown (``clean``), escaped elements (``element``), prose (``prose``, ``paragraph``, ``wrap``), what was typed or printed
(``typed``), labels and values in columns (``html_lines``), signs on coloured discs (``mark``), bars (``bar``,
``text_bar``).
"""

import html
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

# NOTE [Styles that survive]
# A card is seen in four places: JupyterLab with a trusted notebook, JupyterLab with one that is not (a copy from a
# friend or a teacher), nbconvert's pages and nbgrader's feedback. Only inline `style` attributes reach all four. In a
# notebook that is not trusted, JupyterLab's sanitizer also drops every value it does not know (`var(...)`,
# `currentColor`, the `ch` unit), `role`, and all `aria-...`. So the styles here are inline and of values that it knows,
# and nothing that a reader needs hangs on an attribute that it drops.
# https://github.com/jupyterlab/jupyterlab/blob/00bc244605/packages/apputils/src/sanitizer.ts
#
# NOTE [Colours for two themes]
# No single colour has a contrast of 4.5:1 against both #ffffff and #111111: the best possible is 4.35:1. So text always
# keeps the theme's own colour. Colour is a ground that brings its own white sign, or a line or a bar, which needs 3:1.
WHITE = "#ffffff"
GREEN = "#00735c"
ORANGE = "#b34700"
GREY = "#6b6b6b"
BLUE = "#2f6fad"
MUTED = "0.8"  # opacity of labels: the theme's colour, a little fainter

TEXT_WIDTH = 88
TYPEWRITER = "font-family:menlo,consolas,monospace;font-size:0.92em;line-height:1.5"
SMALL = "margin:0.3em 0;font-size:0.92em"
PLAIN = "margin:0.3em 0"

_TERMINAL_CODES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")
# Control characters, those that are invisible or turn the direction of writing, and lone surrogates, which no UTF-8
# file can hold.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_EMPHASIS = re.compile(r"(?<![\w*])\*(?![\s*])([^*\n]+)(?<!\s)\*(?![\w*])")


class Html(str):
    """Text that is HTML already. Every other string is escaped on its way into an element."""


def visible(text: str) -> str:
    """The text without terminal colours, its invisible characters written out as Python writes them."""
    shown = _TERMINAL_CODES.sub("", text).replace("\r\n", "\n")
    # A lone "\r" begins its line again, as progress bars do: what was written last is what is seen.
    shown = "\n".join(row.rstrip("\r").rsplit("\r", 1)[-1] for row in shown.split("\n"))
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), shown)


def clean(text: object, limit: int = 1000, lines: int | None = None) -> str:
    """Any text made fit to be shown: ``visible``, and cut to so many characters, where it ends in "...", and to so many
    lines, of which the rest is counted.
    """
    rows = str(text).split("\n")
    # What will not be shown need not be looked at: an answer may print megabytes.
    shown = visible("\n".join(rows[:lines])[: 20 * limit])
    if len(shown) > limit:
        shown = shown[: limit - 4].rstrip() + " ..."
    left_out = len(rows[lines:]) if lines is not None else 0
    return shown + (f"\n... and {left_out} more line{'s' if left_out > 1 else ''}" if left_out else "")


def escape(text: str) -> Html:
    """The text, made ``visible``, with ``& < > " '`` escaped."""
    return Html(html.escape(visible(text)))


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
    """Cleaned and escaped text, with `code` between backticks and *emphasis* between asterisks as elements."""
    parts = re.split(r"`([^`\n]+)`", clean(text, limit))
    shown = [
        element("code", part) if i % 2 else Html(_EMPHASIS.sub(r"<em>\1</em>", escape(part)))
        for i, part in enumerate(parts)
    ]
    return Html("".join(shown))


def paragraph(text: str, label: str = "", style: str = PLAIN) -> Html:
    """A paragraph of ``prose``, after a label in bold where there is one."""
    head = (element("strong", label + ":"), " ") if label else ()
    return element("p", *head, prose(text), style=style)


def explained_link(notebook: str, heading: str) -> Html:
    """A link as JupyterLab follows it: to the lesson's notebook, and there to the heading."""
    # The characters that JavaScript's encodeURIComponent leaves alone, too: JupyterLab compares with what that gives.
    fragment = quote(heading.replace("`", "").replace(" ", "-"), safe="!~*'()")
    return element("a", prose(f"{notebook}, “{heading}”"), href=f"{_way_up()}{notebook}.ipynb#{fragment}")


def _way_up() -> str:
    """From the notebook that is running to the lessons: they lie beside it, or above one of ``further/``."""
    try:
        return "../" if Path.cwd().name == "further" else ""
    except FileNotFoundError:  # the folder was deleted while the notebook is open
        return ""


def typed(text: str) -> Html:
    """Text as it was typed or printed, its lines and spaces kept, along a thin line."""
    # nbgrader's pages draw a grey box round every <pre>: the border, its radius and the ground are there to undo that.
    line = f"border:0;border-radius:0;border-left:1px solid {GREY};background-color:transparent"
    style = f"{TYPEWRITER};margin:0.3em 0;padding:0 0 0 0.7em;{line};white-space:pre-wrap;overflow-wrap:break-word"
    return element("pre", text, style=style)


def beside_line(name: str, colour: str, blocks: Iterable[str]) -> Html:
    """The blocks, one a line of source, in one element with a coloured line to their left."""
    style = f"margin:0.3em 0;padding:0 0 0 0.9em;border-left:3px solid {colour};max-width:56em"
    return element(name, Html("\n" + "\n".join(blocks) + "\n"), style=style)


def mark(sign: str, ground: str) -> Html:
    """A white sign on a coloured disc. The word beside it says the same, so it is hidden from screen readers."""
    style = (
        "display:inline-block;width:1.3em;height:1.3em;line-height:1.3em;margin-right:0.5em;border-radius:0.65em;"
        f"text-align:center;font-size:0.8em;font-weight:bold;vertical-align:0.1em;background-color:{ground};color:{WHITE}"
    )
    return element("span", sign, style=style, aria_hidden="true")


def bar(share: float) -> Html:
    """A bar filled to ``share`` (0 to 1). The number beside it says the same, so it is hidden from screen readers."""
    filled = element("span", style=f"display:block;height:0.6em;width:{_filled(share, 100)}%;background-color:{BLUE}")
    style = f"display:inline-block;width:10em;height:0.6em;border:1px solid {GREY};border-radius:0.2em;overflow:hidden"
    return element("span", filled, style=style + ";vertical-align:middle", aria_hidden="true")


def text_bar(share: float) -> str:
    """A bar of 10 characters, filled to ``share`` (0 to 1)."""
    filled = _filled(share, 10)
    return "█" * filled + "░" * (10 - filled)


def _filled(share: float, width: int) -> int:
    """How many of ``width`` are filled: none only for a share of 0, all only for a share of 1."""
    if share <= 0 or share >= 1:
        return width if share >= 1 else 0
    return min(max(round(width * share), 1), width - 1)


def html_lines(rows: Iterable[tuple[str, str]]) -> Html:
    """Labels and values in a typewriter face, the values beginning in one column: a definition list."""
    rows = clean_rows(rows)
    # A typewriter character is about 0.6 em wide. Floats, because every place shows them; the values' own `float` and
    # `width` are there because JupyterLab gives others to a <dd>.
    column = 0.62 * max((len(label) for label, _ in rows), default=0) + 1.2
    term = f"float:left;clear:left;width:auto;margin:0;padding:0;font-weight:normal;opacity:{MUTED}"
    value = f"float:none;width:auto;margin:0 0 0 {column:.1f}em;padding:0;white-space:pre-wrap;overflow-wrap:break-word"
    pairs = [element("dt", label, style=term) + element("dd", text, style=value) for label, text in rows]
    return element("dl", Html("".join(pairs)), style=f"margin:0.4em 0;{TYPEWRITER}")


def clean_rows(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Labels and values made fit to be shown; no value is empty."""
    # An empty <dd> has no height, and the next label would slide up beside this one.
    return [(clean(label, 40), clean(text, 1000, lines=15) or "(nothing)") for label, text in rows]


def wrap(text: object, first: str = "", rest: str = "", limit: int = 1000) -> str:
    """Prose wrapped to the width of a terminal, ``first`` before its first line and ``rest`` before the others."""
    words = " ".join(clean(text, limit).split())
    lines = textwrap.wrap(words, TEXT_WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return "\n".join(lines) or first.rstrip()


def pieces(text: str, width: int) -> list[str]:
    """The lines of a text, cut into pieces of at most ``width`` characters, their own spacing kept."""
    wrapper = textwrap.TextWrapper(width, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False)
    pieces = []
    for line in text.expandtabs(4).split("\n"):
        first, *others = wrapper.wrap(line) or [""]
        pieces += [first.rstrip(), *(piece.strip() for piece in others)]
    return pieces

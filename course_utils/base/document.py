"""A card, described once and shown in two forms: HTML in a notebook, text of 88 columns elsewhere (``card``).

A card is made of blocks: ``paragraph``, ``rows``, ``typed``, ``items``, ``table`` ... Data in, text out: the same data
gives the same text, to the byte. Any of it may come from an answer: it is cleaned and escaped here.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import indent as indented
from typing import NamedTuple

from course_utils.base import columns, markup
from course_utils.base.markup import BLUE, PLAIN, SMALL, TEXT_WIDTH, Html, clean, element, mark, prose, wrap

_HEADING = "margin:0;padding:0;font-size:1em;font-weight:bold;line-height:1.5"
_ITEM = "padding:0;list-style:none"
_CELL = "padding:0.25em 1.4em 0.25em 0;text-align:left;vertical-align:middle;white-space:nowrap"
_CAPTION = "caption-side:top;text-align:left;padding:0 0 0.4em 0;font-weight:bold"

Text = Callable[[str], str]  # makes the lines of a block, given the spaces that they begin with


class Block(NamedTuple):
    """A part of a card, or a whole one, in both its forms."""

    html: Html
    text: Text


class Sign(NamedTuple):
    """What stands before a line: the word says it, the sign and its ground say it again."""

    sign: str
    word: str
    ground: str


class Shown:
    """What shows itself as a card: HTML in a notebook, text elsewhere."""

    def card(self) -> Block:
        """Both forms, made now."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self.card().html

    def __repr__(self) -> str:
        return self.card().text("")


def _html(blocks: Iterable[Block]) -> list[Html]:
    return [block.html for block in blocks]


def _text(first: Text, blocks: Iterable[Block], between: str = "\n") -> Text:
    """What stands first, and below it, further in, the blocks."""
    return lambda indent: between.join([first(indent), *(block.text(f"{indent}  ") for block in blocks)])


def card(title: str, blocks: Iterable[Block], colour: str = BLUE, *, name: str = "", is_section: bool = False) -> Block:
    """A title and, below it, blocks along a coloured line; an exercise's name stands as code before the title.

    A section's title is a heading in a notebook, one level below that of an exercise; in a terminal, blank lines stand
    between its blocks.
    """
    blocks, code = list(blocks), [element("code", clean(name, 80)), ": "] if name else []
    if is_section:
        head = element("h4", *code, title, style=_HEADING)
    else:
        head = element("p", element("strong", *code, title) if name else prose(title), style="margin:0")
    said = f"{name}: {title}" if name else title
    text = _text(lambda indent: wrap(said, indent, indent), blocks, "\n\n" if is_section else "\n")
    return Block(markup.beside_line("section" if is_section else "div", colour, [head, *_html(blocks)]), text)


def group(first: Block, blocks: Iterable[Block]) -> Block:
    """A block, and what belongs to it below, without a line."""
    blocks = list(blocks)
    return Block(element("div", *_html([first, *blocks])), _text(first.text, blocks))


def folded(summary: str, blocks: Sequence[Block]) -> Block:
    """Blocks that a notebook shows below their summary once that is clicked on; a terminal folds nothing."""
    html = element("details", element("summary", summary), *_html(blocks))
    return Block(html, _text(lambda indent: f"{indent}{summary}:", blocks))


def paragraph(content: str, label: str = "", *, link: tuple[str, ...] = ()) -> Block:
    """Prose, after a label in bold where there is one; after it a link to a notebook's heading."""
    html = markup.paragraph(content, label)
    if link:
        html = element("p", prose(content), markup.explained_link(*link), style=PLAIN)
        content += _place(*link)
    label, more = (f"{label}: ", "  ") if label else ("", "")
    return Block(html, lambda indent: wrap(content, f"{indent}{label}", f"{indent}{more}"))


def _place(notebook: str, heading: str) -> str:
    """Where the course explains something, without a link."""
    return f"{notebook}, “{heading}”"


def notes(remarks: Sequence[str]) -> Block:
    """Small remarks of one line each, which stand together."""
    return Block(
        Html("\n".join(markup.paragraph(clean(remark, 400), "Note", SMALL) for remark in remarks)),
        lambda indent: "\n".join(wrap(remark, f"{indent}Note: ", f"{indent}  ", limit=400) for remark in remarks),
    )


def rows(pairs: Iterable[tuple[str, str]]) -> Block:
    """Labels and values, the values beginning in one column."""
    pairs = markup.clean_rows(pairs)
    column = max((len(label) for label, _ in pairs), default=0) + 2

    def text(indent: str) -> str:
        lines = []
        for label, value in pairs:
            for piece in markup.pieces(value, TEXT_WIDTH - len(indent) - 2 - column):
                lines.append(f"{indent}  {label:<{column}}{piece}".rstrip())
                label = ""
        return "\n".join(lines)

    return Block(markup.html_lines(pairs), text)


def typed(content: str, label: str = "") -> Block:
    """What was typed or printed, along a thin line; below a label where there is one."""
    head = [markup.paragraph(f"{label}:", style=SMALL)] if label else []

    def text(indent: str) -> str:
        lines = markup.pieces(content, TEXT_WIDTH - len(indent) - 4)
        return "\n".join([f"{indent}{label}:"] * bool(label) + [f"{indent}  | {line}".rstrip() for line in lines])

    return Block(Html("\n".join([*head, markup.typed(content)])), text)


def code(source: str) -> Block:
    """Code of the course's own, to be copied: whole, and in a terminal nothing stands before its lines."""
    lines = markup.visible(source).rstrip().split("\n")
    return Block(markup.typed(source.rstrip()), lambda indent: "\n".join(f"{indent}{line}".rstrip() for line in lines))


def verdict(sign: Sign) -> Block:
    """A sign and its word in bold, alone."""
    html = element("p", mark(sign.sign, sign.ground), element("strong", sign.word), style="margin:0.3em 0")
    return Block(html, lambda indent: f"{indent}{sign.sign} {sign.word}")


def line(sign: Sign, content: str) -> Block:
    """An item of a list in one line, behind its sign and word."""
    style = f"margin:0.1em 0;{_ITEM}"
    html = element("li", mark(sign.sign, sign.ground), f"{sign.word}: ", prose(content), style=style)
    return Block(html, lambda indent: wrap(content, f"{indent}{sign.sign} {sign.word}: ", f"{indent}  "))


def item(sign: Sign, content: str, blocks: Sequence[Block]) -> Block:
    """An item of a list with all that is said of it below."""
    head = mark(sign.sign, sign.ground), element("strong", sign.word), ": ", prose(content)
    below = [element("div", *_html(blocks), style="margin:0 0 0 1.6em")] * bool(blocks)
    html = element("li", element("p", *head, style="margin:0"), *below, style=f"margin:0.3em 0 0.7em 0;{_ITEM}")
    return Block(html, _text(line(sign, content).text, blocks))


def items(failed: Sequence[Block], remark: str, lines: Sequence[Block]) -> Block:
    """A list: items that are an ``item``, a small remark between the two where there is one, items of one ``line``."""
    aside = [element("li", prose(remark), style=f"{SMALL};margin:0 0 0.7em 1.6em;{_ITEM}")] * bool(remark)

    def text(indent: str) -> str:
        shown = [item.text(indent) for item in failed]
        shown += [wrap(remark, f"{indent}  ", f"{indent}  ")] * bool(remark)
        return "\n\n".join(shown + ["\n".join(item.text(indent) for item in lines)] * bool(lines))

    inside = Html("\n".join(["", *_html(failed), *aside, *_html(lines), ""]))
    return Block(element("ul", inside, style="list-style:none;margin:0.4em 0 0.6em 0;padding:0", role="list"), text)


def written(content: str) -> Block:
    """A model answer: paragraphs, and lists of lines that begin with "- "."""
    parts = [re.split(r"^- ", part, flags=re.MULTILINE) for part in re.split(r"\n\s*\n", content) if part.strip()]
    paragraphs = [(first.replace("**", "").strip(), rest) for first, *rest in parts]
    html: list[Html] = []
    for first, rest in paragraphs:
        html += [markup.paragraph(first)] * bool(first)
        html += [element("ul", *(element("li", prose(item)) for item in rest), style="margin:0.2em 0")] * bool(rest)

    def text(indent: str) -> str:
        said = []
        for first, rest in paragraphs:
            lines = [wrap(first, indent, indent)] * bool(first)
            said.append("\n".join(lines + [wrap(item, f"{indent}- ", f"{indent}  ") for item in rest]))
        return "\n\n".join(said)

    return Block(Html("\n".join(html)), text)


def links(title: str, places: Sequence[tuple[str, str, str]], more: str = "") -> Block:
    """A titled list of texts, each with the notebook and the heading it leads to; ``more`` says what is left out."""
    head = element("p", element("strong", title), style="margin:0.6em 0 0 0")
    entries = [element("li", prose(text), ": ", markup.explained_link(*place)) for text, *place in places]
    below = [markup.paragraph(more, style=SMALL)] * bool(more)

    def text(indent: str) -> str:
        said = [wrap(f"{text}: {_place(*place)}", f"{indent}  - ", f"{indent}    ") for text, *place in places]
        return "\n".join([f"{indent}{title}", *said, *[f"{indent}  {more}"] * bool(more)])

    return Block(element("div", head, element("ul", *entries, style="margin:0.1em 0 0.4em 0"), *below), text)


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]], remarks: Sequence[str] = ()
) -> Block:
    """A table with a caption of one line, and small remarks below it. The first cell of each row names it; each cell is
    given as a notebook and as a terminal shows it, which shows no headings.
    """
    parts = [element("caption", caption, style=_CAPTION)]
    parts.append(element("thead", element("tr", *(element("th", name, scope="col", style=_CELL) for name in headings))))
    body = []
    for (first, _), *cells in rows:
        named = element("th", first, scope="row", style=_CELL + ";font-weight:normal")
        body.append(element("tr", named, *(element("td", cell, style=_CELL) for cell, _ in cells)))
    parts.append(element("tbody", Html("\n".join(body))))
    whole = element("table", Html("\n".join(parts)), style="margin:0.3em 0;border-collapse:collapse")
    below = [markup.paragraph(remark, style=SMALL) for remark in remarks]

    def text(indent: str) -> str:
        lines = columns([[cell for _, cell in row] for row in rows], left=range(len(headings)))
        said = [wrap(remark, f"{indent}  ", f"{indent}  ") for remark in remarks]
        return "\n".join([wrap(caption, indent, indent), indented(lines, f"{indent}  "), *said])

    return Block(element("div", Html("\n".join(["", whole, *below, ""]))), text)

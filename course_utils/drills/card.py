"""How a drill looks (``drill_card``), in a notebook and in a terminal. Data in, text out."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from course_utils.base.document import Block, card, code, paragraph, typed
from course_utils.drills.score import call, title

if TYPE_CHECKING:
    from course_utils.drills.drill import Drill


def drill_card(drill: Drill) -> Block:
    """A drill as a card: the program, what is asked, and the cell to answer with."""
    numbered = "\n".join(f"{number:2}  {line}" for number, line in enumerate(drill.lines, 1))
    kinds: dict[str, list[str]] = {}
    for question in drill.questions:
        values = " or ".join(map(repr, question.choices)).replace(" or ", ", ", len(question.choices) - 2)
        kinds.setdefault(f"{question.asks} {values}", []).append(question.key)
    blocks = [
        *[paragraph(drill.because)] * bool(drill.because),
        paragraph(f"{drill.task} Read the program, do not run it: the check does that."),
        typed(numbered),
        *(paragraph(f"{', '.join(f'`{key}`' for key in keys)}: {asks}") for asks, keys in kinds.items()),
        paragraph("Answer in a cell of its own:"),
        code(_cell(drill)),
    ]
    return card(title(drill), blocks, is_section=True)


def _cell(drill: Drill) -> str:
    """The cell to answer with: it names the seed, so that it is the same drill tomorrow and on another machine."""
    # Keys may hold spaces, which are no place to break a line.
    keys = " ".join(f'"{question.key}": ...,'.replace(" ", "\0") for question in drill.questions)
    lines = textwrap.wrap(keys, 56, break_long_words=False, break_on_hyphens=False)
    inner = "\n".join(f"    {line}" for line in lines).replace("\0", " ")
    return f"{call(drill.topic, drill.level, drill.seed)}.check({{\n{inner}\n}})"

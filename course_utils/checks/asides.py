"""How a hint, a prediction and a solution look, in a notebook and in a terminal. Data in, text out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_utils.base.markup import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Html,
    beside_line,
    clean,
    element,
    html_lines,
    mark,
    paragraph,
    prose,
    text_lines,
    typed,
    visible,
    wrap,
)

_ASK = "Your guess first: write it where the `...` stands, and run the cell again."


@dataclass(frozen=True, repr=False)
class Hint:
    """One hint, or the word that there are no more.

    Attributes:
        exercise: the exercise's name.
        text: the hint, with `code` between backticks; empty when all have been given.
        number: which hint this is, from 1.
        total: how many there are.
    """

    exercise: str
    text: str
    number: int
    total: int

    def _repr_html_(self) -> str:
        return hint_html(self)

    def __repr__(self) -> str:
        return hint_text(self)


@dataclass(frozen=True, repr=False)
class Prediction:
    """A prediction beside what the engine does.

    Attributes:
        question: what was asked.
        guess: the learner's guess, in short form.
        actual: what the engine does, in short form; not shown before there is a guess.
        right: whether they agree; None while there is no guess.
        thought: which thought leads to a wrong guess; empty where nothing is known of it.
    """

    question: str
    guess: str = ""
    actual: str = ""
    right: bool | None = None
    thought: str = ""

    def _repr_html_(self) -> str:
        return prediction_html(self)

    def __repr__(self) -> str:
        return prediction_text(self)


@dataclass(frozen=True, repr=False)
class Solution:
    """A worked solution, or a sentence in its place.

    Attributes:
        exercise: the exercise's name.
        source: its code; empty where there is none to show.
        note: a remark on it, or why there is none.
        written: the model answer of a written question: paragraphs, and lists of lines that begin with "- ".
    """

    exercise: str
    source: str = ""
    note: str = ""
    written: str = ""

    def _repr_html_(self) -> str:
        return solution_html(self)

    def __repr__(self) -> str:
        return solution_text(self)


def hint_html(hint: Hint) -> str:
    """One hint as a card."""
    title, text = _hint(hint)
    return beside_line("div", BLUE, [_title(hint.exercise, title), paragraph(text)])


def hint_text(hint: Hint) -> str:
    """One hint as text."""
    title, text = _hint(hint)
    return wrap(f"{hint.exercise}: {title}") + "\n" + wrap(text, "  ", "  ")


def _hint(hint: Hint) -> tuple[str, str]:
    if hint.text:
        return f"hint {hint.number} of {hint.total}", hint.text
    seen = f"You have seen all {hint.total}" if hint.total else "This exercise has none"
    return "no more hints", f"{seen}. `lesson.solution({hint.exercise!r})` shows a worked solution."


def prediction_html(prediction: Prediction) -> str:
    """A prediction beside what the engine does; without a guess, the question alone."""
    question = element("p", prose(prediction.question), style="margin:0")
    if prediction.right is None:
        return beside_line("div", GREY, [question, paragraph(_ASK)])
    sign, word, ground = _outcome(prediction)
    verdict = element("p", mark(sign, ground), element("strong", word), style="margin:0.3em 0")
    blocks = [question, verdict, html_lines(_compared(prediction))]
    return beside_line("div", ground, blocks + [paragraph(prediction.thought)] * bool(prediction.thought))


def prediction_text(prediction: Prediction) -> str:
    """The same as text."""
    question = wrap(prediction.question)
    if prediction.right is None:
        return question + "\n" + wrap(_ASK, "  ", "  ")
    sign, word, _ = _outcome(prediction)
    thought = "\n" + wrap(prediction.thought, "  ", "  ") if prediction.thought else ""
    return f"{question}\n  {sign} {word}\n" + text_lines(_compared(prediction), "    ") + thought


def _outcome(prediction: Prediction) -> tuple[str, str, str]:
    return ("✓", "right", GREEN) if prediction.right else ("✗", "not what happens", ORANGE)


def _compared(prediction: Prediction) -> list[tuple[str, str]]:
    return [("you said", prediction.guess), ("PyTorch", prediction.actual)]


def solution_html(solution: Solution) -> str:
    """A worked solution as code, or a model answer as prose."""
    blocks = [_title(solution.exercise, "solution")]
    for text, items in _paragraphs(solution.written):
        blocks += [paragraph(text)] * bool(text)
        blocks += [element("ul", *(element("li", prose(item)) for item in items), style="margin:0.2em 0")] * bool(items)
    if solution.source:
        # Code is shown whole: it comes from the course and not from an answer.
        blocks.append(typed(solution.source.rstrip()))
    if solution.note:
        blocks.append(paragraph(solution.note))
    return beside_line("div", BLUE, blocks)


def solution_text(solution: Solution) -> str:
    """A worked solution as text; its code is not wrapped."""
    written = [
        "\n".join([wrap(text, "  ", "  ")] * bool(text) + [wrap(item, "  - ", "    ") for item in items])
        for text, items in _paragraphs(solution.written)
    ]
    source = "\n".join(f"  {line}".rstrip() for line in visible(solution.source).rstrip().split("\n"))
    note = wrap(solution.note, "  ", "  ") if solution.note else ""
    answer = "\n\n".join(written)
    return "\n".join(part for part in (wrap(f"{solution.exercise}: solution"), source, answer, note) if part)


def _paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """Each paragraph of a model answer, and the items of the list below its first lines."""
    blocks = [re.split(r"^- ", block, flags=re.MULTILINE) for block in re.split(r"\n\s*\n", text) if block.strip()]
    return [(first.replace("**", "").strip(), items) for first, *items in blocks]


def _title(exercise: str, what: str) -> Html:
    name = element("code", clean(exercise, 80))
    return element("p", element("strong", name, f": {what}"), style="margin:0")

"""How points look, in a notebook and in a terminal: a lesson's (``scorecard_html``, ``scorecard_text``) and the whole
course's (``progress_html``, ``progress_text``), as tables with bars. Data in, text out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from course_utils.base.markup import SMALL, Html, bar, clean, element, explained_link, paragraph, prose, text_bar, wrap
from course_utils.base.words import columns, points, points_of

_SHOWN = 12  # misconceptions in each list
_CELL = "padding:0.25em 1.4em 0.25em 0;text-align:left;vertical-align:middle;white-space:nowrap"


@dataclass(frozen=True)
class ScoreRow:
    """One exercise in a lesson's score card.

    Attributes:
        exercise: its name.
        earned: points earned.
        possible: points it can earn.
        status: a ``Score``'s status.
    """

    exercise: str
    earned: float
    possible: float
    status: str


class _Summed:
    """The points of all rows together."""

    rows: "tuple[ScoreRow, ...] | tuple[LessonProgress, ...]"

    @property
    def earned(self) -> float:
        return sum(row.earned for row in self.rows)

    @property
    def possible(self) -> float:
        return sum(row.possible for row in self.rows)


@dataclass(frozen=True, repr=False)
class ScoreCard(_Summed):
    """One lesson's points, as ``lesson.scorecard()`` shows them.

    Attributes:
        lesson: the lesson's title.
        rows: its exercises, in order.
        predictions_right: predictions that were right.
        predictions_asked: predictions that were made.
        notes: remarks of one line each.
    """

    lesson: str
    rows: tuple[ScoreRow, ...]
    predictions_right: int = 0
    predictions_asked: int = 0
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return scorecard_html(self)

    def __repr__(self) -> str:
        return scorecard_text(self)


@dataclass(frozen=True)
class LessonProgress:
    """One lesson's row in the course's table.

    Attributes:
        number: its place in the course.
        name: what ``Lesson(name)`` takes.
        title: its heading.
        earned: the points of its best attempts.
        possible: the points it can earn; 0 for a lesson without points.
        begun: whether anything was attempted or predicted.
        predictions_right: predictions whose last guess was right.
        predictions_asked: predictions made.
        question: the question it answers.
    """

    number: int
    name: str
    title: str
    earned: float
    possible: float
    begun: bool
    predictions_right: int
    predictions_asked: int
    question: str = ""

    @property
    def share(self) -> float:
        """The earned share of its points, 0 to 1."""
        return self.earned / self.possible if self.possible else 0.0

    @property
    def state(self) -> str:
        """In words: "not begun", "begun" or "full marks"."""
        if self.possible and self.earned >= self.possible:
            return "full marks"
        return "begun" if self.begun else "not begun"


@dataclass(frozen=True)
class Remembered:
    """A misconception that the learner was told of.

    Attributes:
        name: what it is called.
        notebook, heading: where the course explains it.
        is_open: whether no later answer to an exercise that showed it has been free of it.
    """

    name: str
    notebook: str
    heading: str
    is_open: bool


@dataclass(frozen=True, repr=False)
class Progress(_Summed):
    """The whole course: shows itself as a table with bars, or as text.

    Attributes:
        rows: one for every lesson of the course, in order.
        notes: where it is stored, and what could not be read; one line each.
        misconceptions: what the learner was told of, the latest first.
    """

    rows: tuple[LessonProgress, ...]
    notes: tuple[str, ...] = ()
    misconceptions: tuple[Remembered, ...] = ()

    def _repr_html_(self) -> str:
        return progress_html(self)

    def __repr__(self) -> str:
        return progress_text(self)


def scorecard_html(card: ScoreCard) -> str:
    """A lesson's points as a table with bars."""
    rows = [
        (element("code", clean(row.exercise, 80)), bar(_share(row)), points(row.earned, row.possible), row.status)
        for row in card.rows
    ]
    return _table_html(_lesson_title(card), ("Exercise", "Share", "Points", "State"), rows, _lesson_notes(card))


def scorecard_text(card: ScoreCard) -> str:
    """A lesson's points as text with bars."""
    rows = [
        (clean(row.exercise, 28), text_bar(_share(row)), points_of(row.earned, row.possible), clean(row.status, 20))
        for row in card.rows
    ]
    return _table_text(_lesson_title(card), rows, _lesson_notes(card))


def progress_html(progress: Progress) -> str:
    """The whole course as a table with bars."""
    rows = [
        (
            _named(row),
            bar(row.share) if row.possible else Html(""),
            points(row.earned, row.possible),
            _predictions(row.predictions_right, row.predictions_asked) or "none yet",
            row.state,
        )
        for row in progress.rows
    ]
    columns = ("Lesson", "Share", "Points", "Predictions", "State")
    table = _table_html(_course_title(progress), columns, rows, progress.notes)
    lists = [
        element(
            "div",
            element("p", element("strong", title), style="margin:0.6em 0 0 0"),
            element("ul", *(_item(one) for one in some), style="margin:0.1em 0 0.4em 0"),
            *([paragraph(more, style=SMALL)] if more else []),
        )
        for title, some, more in _remembered(progress)
    ]
    return element("div", table, *lists)


def _item(one: Remembered) -> Html:
    return element("li", prose(one.name), ": ", explained_link(one.notebook, one.heading))


def _remembered(progress: Progress) -> Iterator[tuple[str, list[Remembered], str]]:
    """What is still open and what is cleared up, the latest first, and how many more there are."""
    for title, is_open in (("Still open", True), ("Cleared up", False)):
        mine = [one for one in progress.misconceptions if one.is_open == is_open]
        if mine:
            more = len(mine) - _SHOWN
            yield f"{title} ({len(mine)})", mine[:_SHOWN], f"and {more} told earlier." if more > 0 else ""


def progress_text(progress: Progress) -> str:
    """The whole course as text with bars."""
    rows = [
        (
            clean(f"{row.number:02d} {row.title}", 28),
            text_bar(row.share) if row.possible else "",
            points_of(row.earned, row.possible) if row.possible else "no points",
            _predictions(row.predictions_right, row.predictions_asked),
            row.state,
        )
        for row in progress.rows
    ]
    lines = [_table_text(_course_title(progress), rows, progress.notes)]
    for title, some, more in _remembered(progress):
        lines += [
            f"  {title}",
            *(wrap(_line(one), "    - ", "      ") for one in some),
            *([f"    {more}"] * bool(more)),
        ]
    return "\n".join(lines)


def _line(one: Remembered) -> str:
    return f"{one.name}: {one.notebook}, “{one.heading}”"


def _named(row: LessonProgress) -> Html:
    name = element("strong", f"{row.number:02d} {row.title}")
    if not row.question:
        return name
    return Html(name + element("div", row.question, style=SMALL + ";max-width:22em;white-space:normal"))


def _share(row: ScoreRow) -> float:
    return row.earned / row.possible if row.possible else 0.0


def _predictions(right: int, asked: int) -> str:
    return f"{right} of {asked} right" if asked else ""


def _lesson_title(card: ScoreCard) -> str:
    return f"{card.lesson}: {points(card.earned, card.possible)}"


def _lesson_notes(card: ScoreCard) -> tuple[str, ...]:
    asked = _predictions(card.predictions_right, card.predictions_asked)
    return ((f"Predictions: {asked}.",) if asked else ()) + card.notes


def _course_title(progress: Progress) -> str:
    begun = sum(row.begun for row in progress.rows)
    return f"Your progress: {points(progress.earned, progress.possible)}, {begun} of {len(progress.rows)} lessons begun"


def _table_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> Html:
    caption = element("caption", title, style="caption-side:top;text-align:left;padding:0 0 0.4em 0;font-weight:bold")
    head = element("tr", *(element("th", name, scope="col", style=_CELL) for name in columns))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", style=_CELL + ";font-weight:normal"),
            *(element("td", cell, style=_CELL) for cell in row[1:]),
        )
        for row in rows
    ]
    parts = [caption, element("thead", head), element("tbody", Html("\n".join(body)))]
    style = "margin:0.3em 0;border-collapse:collapse"
    blocks = [element("table", Html("\n".join(parts)), style=style), *(paragraph(note, style=SMALL) for note in notes)]
    return element("div", Html("\n" + "\n".join(blocks) + "\n"))


def _table_text(title: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    table = indent(columns(rows, left=range(len(rows[0]))), "  ")
    return "\n".join([wrap(title), table, *(wrap(note, "  ", "  ") for note in notes)])

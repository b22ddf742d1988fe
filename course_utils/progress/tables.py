"""Points as tables with bars: a lesson's (``ScoreCard``) and the whole course's (``Progress``)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from course_utils.base import points, points_of
from course_utils.base.document import Block, Shown, group, links, rows, table
from course_utils.base.markup import SMALL, Html, bar, clean, element, text_bar
from course_utils.progress.events import Told

_SHOWN = 12  # misconceptions in each list


@dataclass(frozen=True)
class ScoreRow:
    """One exercise in a lesson's score card: its points, and a ``Score``'s status."""

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
class ScoreCard(_Summed, Shown):
    """One lesson's points, as ``lesson.scorecard()`` shows them: its title, its exercises in order, how many first
    guesses of predictions were right and made, and remarks of one line each."""

    lesson: str
    rows: tuple[ScoreRow, ...]
    predictions_right: int = 0
    predictions_asked: int = 0
    notes: tuple[str, ...] = ()

    def card(self) -> Block:
        """The points as a table."""
        shown = []
        for row in self.rows:
            share = row.earned / row.possible if row.possible else 0.0
            name = element("code", clean(row.exercise, 80)), clean(row.exercise, 28)
            shown.append((name, (bar(share), text_bar(share)), _points(row), (row.status, clean(row.status, 20))))
        title = f"{self.lesson}: {points(self.earned, self.possible)}"
        asked = _predictions(self)
        remarks = [f"Predictions: {asked}, by your first answers."] * bool(asked)
        return table(title, ("Exercise", "Share", "Points", "State"), shown, [*remarks, *self.notes])


@dataclass(frozen=True)
class LessonProgress:
    """One lesson's row in the course's table: what the catalogue says of it; points of its best attempts, and the most
    it can earn (0 for a lesson without points); whether anything was attempted or predicted; first guesses; exercises
    that have not all their points yet; whether its written question is answered, None where that is not known."""

    number: int
    name: str
    title: str
    earned: float
    possible: float
    begun: bool
    predictions_right: int
    predictions_asked: int
    question: str = ""
    open_exercises: tuple[str, ...] = ()
    is_written: bool | None = None

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


@dataclass(frozen=True, repr=False)
class Progress(_Summed, Shown):
    """The whole course: shows itself as a table with bars, or as text.

    Attributes:
        rows: one for every lesson of the course, in order.
        notes: where it is stored, and what could not be read; one line each.
        misconceptions: what the learner was told of, the latest first; open until all exercises are free of it.
        drills: by topic and level; by seed and key, whether the first answer was right.
        latest: the lesson that was worked on last; empty where none was.
    """

    rows: tuple[LessonProgress, ...]
    notes: tuple[str, ...] = ()
    misconceptions: tuple[Told, ...] = ()
    drills: Mapping[tuple[str, int], Mapping[tuple[str, str], bool]] = field(default_factory=dict)
    latest: str = ""

    @property
    def next(self) -> tuple[str, str] | None:
        """The nearest open exercise, with its lesson before it; None where all are solved.

        It is the first one of the lesson that was worked on last, else of those after it, else of those before it.
        """
        at = next((row.number for row in self.rows if row.name == self.latest), 0)
        ahead = (row for row in (*self.rows[at:], *self.rows[:at]) if row.open_exercises)
        return next(((row.name, row.open_exercises[0]) for row in ahead), None)

    def card(self) -> Block:
        """The lessons as a table, and below it what is open, what drills gave, and what is still to be cleared up."""
        shown = []
        for row in self.rows:
            name = element("strong", f"{row.number:02d} {row.title}")
            question = element("div", row.question, style=SMALL + ";max-width:22em;white-space:normal")
            share = (bar(row.share), text_bar(row.share)) if row.possible else (Html(""), "")
            earned = _points(row) if row.possible else ("no points", "no points")
            named = Html(name + question * bool(row.question)), clean(f"{row.number:02d} {row.title}", 28)
            asked = _predictions(row)
            shown.append((named, share, earned, (asked or "none yet", asked), (row.state, row.state)))
        begun = f"{sum(row.begun for row in self.rows)} of {len(self.rows)} lessons begun"
        title = f"Your progress: {points(self.earned, self.possible)}, {begun}"
        columns = ("Lesson", "Share", "Points", "First guesses", "State")
        return group(table(title, columns, shown, self.notes), [rows([*self._open()]), *self._remembered()])

    def _open(self) -> Iterator[tuple[str, str]]:
        """What is next, what is open in lessons that are begun, and what was answered in drills."""
        lesson, exercise = self.next or ("", "")
        number = next((row.number for row in self.rows if row.name == lesson), 0)
        yield "next", f"{exercise}, in lesson {number:02d}" if lesson else "every exercise is solved"
        for row in self.rows:
            said = [f"open: {', '.join(row.open_exercises)}"] * bool(row.open_exercises)
            said += [f"written question {'answered' if row.is_written else 'open'}"] * (row.is_written is not None)
            if row.begun and said:
                yield f"lesson {row.number:02d}", "; ".join(said)
        for (topic, level), held in self.drills.items():
            yield f"drill {topic}, level {level}", f"{sum(held.values())} of {len(held)} right"

    def _remembered(self) -> Iterator[Block]:
        """What is still open and what is cleared up, the latest first, and how many more there are."""
        for title, is_open in (("Still open", True), ("Cleared up", False)):
            mine = [(one.name, one.notebook, one.heading) for one in self.misconceptions if one.is_open == is_open]
            more = f"and {len(mine) - _SHOWN} told earlier." if len(mine) > _SHOWN else ""
            if mine:
                yield links(f"{title} ({len(mine)})", mine[:_SHOWN], more)


def _points(row: ScoreRow | LessonProgress) -> tuple[str, str]:
    return points(row.earned, row.possible), points_of(row.earned, row.possible)


def _predictions(row: ScoreCard | LessonProgress) -> str:
    return f"{row.predictions_right} of {row.predictions_asked} right" if row.predictions_asked else ""

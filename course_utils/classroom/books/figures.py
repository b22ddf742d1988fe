"""The teacher's figure: one assignment's misunderstandings as bars, most frequent first (``plot_misunderstood``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_utils.classroom.books.misunderstood import ExerciseCounts
from course_utils.draw import Drawing
from course_utils.draw.labels import shortened
from course_utils.draw.page import new_page
from course_utils.draw.style import BLUE, INK, QUIET_INK, RULE, text_width

TITLE_SIZE, HEAD_SIZE, TEXT_SIZE = 11.0, 9.5, 8.5
WIDTH, NAMES, MARGIN = 640.0, 300.0, 16.0  # points; NAMES is where the bars begin
ROW, BAR, GAP = 19.0, 12.0, 10.0
MOST = 5  # misunderstandings that are drawn for an exercise; the table has them all


def plot_misunderstood(counts: Sequence[ExerciseCounts], students: int) -> Drawing:
    """Draws how many of the students who handed an assignment in showed which misunderstanding, exercise by exercise.

    Returns:
        The figure, which says the same in words.
    """
    title = f"{counts[0].assignment if counts else 'Nothing handed in'}: what {students} students misunderstood"
    lines = sum(1 + max(1, len(row.misconceptions[:MOST])) for row in counts)
    height = 68 + ROW * lines + GAP * (len(counts) - 1)
    with new_page(WIDTH, height) as page:
        ax = page.ax
        ax.set_axis_off()
        ax.set(xlim=(0, WIDTH), ylim=(height, 0))
        heading = shortened(title, WIDTH - 2 * MARGIN, lambda text: text_width(text, TITLE_SIZE, True))
        _text(ax, MARGIN, 20, heading, TITLE_SIZE, fontweight="bold")
        said = f"bars: students whose card named it, of the {students} who handed it in"
        _text(ax, MARGIN, 38, said, color=QUIET_INK)
        y = 62.0
        for row in counts:
            _text(ax, MARGIN, y, row.exercise, HEAD_SIZE, fontweight="bold")
            _text(ax, NAMES, y, f"{row.passed} of {row.attempted} who tried it passed", color=QUIET_INK)
            y = _bars(ax, row, y + ROW, students) + GAP
    return Drawing(page.figure, _in_words(title, counts))


def _bars(ax: Any, row: ExerciseCounts, y: float, students: int) -> float:
    """Draws one exercise's bars from ``y`` down. Returns where they end."""
    if not row.misconceptions:
        said = "everybody who tried it passed" if row.understood else "no misunderstanding was recognised"
        _text(ax, MARGIN + 12, y, said, color=QUIET_INK)
        return y + ROW
    top = y - ROW / 2
    for name, number in row.misconceptions[:MOST]:
        fitted = shortened(name, NAMES - MARGIN - 22, lambda text: text_width(text, TEXT_SIZE))
        _text(ax, MARGIN + 12, y, fitted)
        length = (WIDTH - NAMES - MARGIN - 28) * number / max(students, number)
        ax.barh(y, length, height=BAR, left=NAMES, color=BLUE)
        _text(ax, NAMES + length + 6, y, str(number))
        y += ROW
    ax.plot([NAMES, NAMES], [top, y - ROW / 2], color=RULE, linewidth=0.8)
    return y


def _text(ax: Any, x: float, y: float, text: str, size: float = TEXT_SIZE, **look: Any) -> None:
    ax.text(x, y, text, fontsize=size, va="center", parse_math=False, **{"color": INK, **look})


def _in_words(title: str, counts: Sequence[ExerciseCounts]) -> str:
    words = [f"{title}."]
    for row in counts:
        named = ", ".join(f"{name} ({number})" for name, number in row.misconceptions[:MOST]) or "none recognised"
        what = "" if row.understood else f"; {named}"
        words.append(f"{row.exercise}: {row.passed} of {row.attempted} passed{what}.")
    return " ".join(words)

"""What everything else stands on: messages, text, markup. Imports nothing of the course. Here is what needs no torch:
counts (``count_of``), points (``points``, ``points_of``), rows in columns (``aligned``, ``columns``,
``markdown_table``), and errors that teach (``explain``).
"""

from collections.abc import Collection, Iterable, Sequence


def aligned(rows: Iterable[tuple[str, str]]) -> str:
    """Rows of label and text as lines whose texts start in one column.

    Example:
        >>> print(aligned([("expected", "f32[3]"), ("got", "None")]))
        expected  f32[3]
        got       None
    """
    return columns(rows, left=(0, 1))


def columns(rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Rows of as many texts each as lines whose columns are two spaces apart, numbers to the right, and words, in the
    columns ``left``, to their left. A column in which nothing stands takes no room.
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<" if place in left else ">" for place in range(len(widths))]
    forms = [f"{side}{width}" for side, width in zip(sides, widths, strict=True)]
    return "\n".join(
        "  ".join(f"{text:{form}}" for text, form, width in zip(row, forms, widths, strict=True) if width).rstrip()
        for row in rows
    )


def markdown_table(rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """The same as a table in Markdown; the first row is its heading."""
    header, *rest = rows
    rule = ["---" if place in left else "---:" for place in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rest))


def count_of(number: int, noun: str) -> str:
    """How many there are of something: ``1 node``, ``2 nodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def points(earned: float, possible: float) -> str:
    """Points in words: ``0.67 of 2 points``, or ``no points``. Rounding never makes full or empty what is not.

    Example:
        >>> points(1, 1), points(9.999, 10), points(0.001, 2)
        ('1 of 1 point', '9.99 of 10 points', '0.01 of 2 points')
    """
    return f"{points_of(earned, possible)} point{'' if possible == 1 else 's'}" if possible else "no points"


def points_of(earned: float, possible: float) -> str:
    """The same without the word: ``0.67 of 2``."""
    return f"{shown(rounded(earned, possible))} of {shown(possible)}"


def rounded(earned: float, possible: float) -> float:
    """Points to 0.01, which are full or none only where they are: what is shown, summed and exported."""
    value = round(earned, 2)
    if earned < possible <= value:
        value = round(possible - 0.01, 2)
    return 0.01 if value <= 0 < earned else value


def shown(value: float) -> str:
    """A number of points with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def explain(did: str, expected: str, why: str = "", try_this: str = "") -> str:
    """Joins the parts of an error message, one a line: what was done, with the value in short form; what was expected
    instead (bad options list the good ones); why it matters, where that is not obvious; what to do now.

    Example:
        >>> print(explain("Lesson('detatch') was asked for.", "Lessons are: detach, no_grad."))
        Lesson('detatch') was asked for.
        Expected: Lessons are: detach, no_grad.
    """
    lines = [did, f"Expected: {expected}"]
    if why:
        lines.append(f"Why it matters: {why}")
    if try_this:
        lines.append(f"Try: {try_this}")
    return "\n".join(lines)

"""Finds a student's answers among the cells of what was handed in (``find_answer``), also where these were copied,
split, merged, moved or retyped.

Imports reading, released and source.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from course_utils.classroom.reading import SubmittedCell
from course_utils.classroom.released import Released, ReleasedCell
from course_utils.classroom.source import defined, is_python

ELSEWHERE = "# This answer stands in another cell of the notebook that was handed in."


@dataclass
class Answer:
    """What is known of one released cell that a student fills in."""

    source: str
    copies: list[str] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)  # positions of submitted cells that this answer stands for
    others: list[SubmittedCell] = field(default_factory=list)  # shown as copies
    blank: bool = False


def find_answer(
    released: ReleasedCell,
    cells: list[SubmittedCell],
    found: dict[int, str],
    notebook: Released,
    repairs: list[str],
) -> Answer:
    """What a student put into a cell that is theirs to fill.

    Args:
        released: the cell.
        cells: all that was handed in.
        found: which released cell each of them is, by position.
        notebook: the released notebook.
        repairs: gets a sentence for everything that is mended.
    """
    mine = [cell for cell in cells if found.get(cell.position) == released.id]
    name = name_of(released, notebook)
    if released.kind != "code":
        return _written(released, mine, name, repairs)
    others = [
        cell
        for cell in cells
        if cell not in mine
        and cell.kind == "code"
        and released.names & defined(cell.source)
        and not _is_as_released(cell, found, notebook)
    ]
    versions = [cell for cell in mine if _defines(cell, released) and not same(cell.source, released.source)]
    for cell in mine:
        if cell.kind != "code":
            repairs.append(f"The answer cell of {name} had been turned into {_kind(cell.kind)}; it was read as code.")
    parts = [cell for cell in mine if cell not in versions and not same(cell.source, released.source)]
    whole = _joined(mine, released) if parts and len(mine) > 1 else None
    cut = any(not is_python(part.source) for part in parts)  # in the middle of the function
    if whole is not None and is_python(whole) and (cut or not (versions or others)):
        repairs.append(f"The answer cell of {name} had been split in {len(mine)}; the parts were put together.")
        return Answer(whole, [cell.source for cell in versions], {cell.position for cell in mine})
    if versions or others:
        first = _first(versions, others, released)
        copies = [cell for cell in (*versions, *others) if cell is not first]
        return _chosen(released, first, copies, mine, name, repairs)
    if not mine:
        repairs.append(f"The answer cell of {name} was missing; it was put back as it was released.")
        return Answer(released.source, blank=True)
    # Nothing that was handed in defines the answer: a stub, code that cannot be read, or another name.
    broken = next((cell for cell in mine if not same(cell.source, released.source)), None)
    chosen = broken or mine[0]
    shown = {cell.position for cell in mine if cell is chosen or same(cell.source, released.source)}
    return Answer(chosen.source, shown=shown, blank=broken is None)


def _chosen(
    released: ReleasedCell,
    first: SubmittedCell,
    copies: list[SubmittedCell],
    mine: list[SubmittedCell],
    name: str,
    repairs: list[str],
) -> Answer:
    shown = {cell.position for cell in mine if same(cell.source, released.source)}
    sources = [cell.source for cell in copies]
    distinct = [source for source in dict.fromkeys(sources) if not same(source, first.source)]
    if copies:
        repairs.append(
            f"The answer {name} stands in {len(copies) + 1} cells; each was judged, and the best one counts."
        )
    if first in mine:
        shown.add(first.position)
        shown.update(cell.position for cell in copies if cell in mine)
        return Answer(first.source, distinct, shown, [cell for cell in copies if cell in mine])
    lost = "it had lost its place" if not mine else "the released cell was left as it was"
    if set(defined(first.source)) <= set(released.names) or first.grade_id == "":
        repairs.append(f"The answer {name} was found in cell {first.position + 1}; {lost}.")
    return Answer(ELSEWHERE, [first.source, *distinct], shown)


def _written(released: ReleasedCell, mine: list[SubmittedCell], name: str, repairs: list[str]) -> Answer:
    texts = [cell.source for cell in mine if not same(cell.source, released.source) and cell.source.strip()]
    texts = list(dict.fromkeys(texts))
    if not mine:
        repairs.append(f"The cell for {name} was missing; it was put back as it was released.")
    if len(texts) > 1:
        repairs.append(f"The text of {name} stands in {len(texts)} cells; they were put together.")
    shown = {cell.position for cell in mine}
    return Answer("\n\n".join(texts) if texts else released.source, shown=shown, blank=not texts)


def _first(versions: list[SubmittedCell], others: list[SubmittedCell], released: ReleasedCell) -> SubmittedCell:
    by_id = [cell for cell in versions if cell.id == released.id]
    return (by_id or versions or others)[0]


def _defines(cell: SubmittedCell, released: ReleasedCell) -> bool:
    return bool(released.names & defined(cell.source))


def _joined(mine: list[SubmittedCell], released: ReleasedCell) -> str | None:
    whole = "\n".join(cell.source for cell in mine)
    return whole if released.names & defined(whole) else None


def _is_as_released(cell: SubmittedCell, found: dict[int, str], notebook: Released) -> bool:
    name = found.get(cell.position)
    return name is not None and same(cell.source, notebook.by_id[name].source)


def name_of(cell: ReleasedCell, released: Released) -> str:
    """What an exercise is called, in backticks."""
    if cell.role == "answer":
        checks = released.checks_of(cell)
        return f"`{checks[0].exercise or checks[0].grade_id}`" if checks else f"`{cell.grade_id or cell.id}`"
    return f"`{cell.exercise or cell.grade_id or cell.id}`"


def same(one: str, other: str) -> bool:
    """Whether two sources differ in nothing but the lines around them."""
    return one.strip() == other.strip()


def _kind(kind: str) -> str:
    return {"markdown": "text", "raw": "a raw cell"}.get(kind, kind)

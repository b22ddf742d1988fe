"""Puts a student's answers into the released notebook (``rebuild``): whatever happened to the cells of what was handed
in, what is graded has every cell of the release, in its order, and the student's own cells in place.

What JupyterLab 4 does to cells: a copy has a new id and the same nbgrader metadata; a merge gives a new id and the
metadata of the active cell; a split keeps the metadata in every part and the id in the last; a cell that was cut and
pasted keeps its id, and where it may not be deleted, the original stays and gets a new one. So cells are found by id,
then by nbgrader's name, then by what they define. Imports answers, reading, released and source.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from course_utils.classroom.answers import ELSEWHERE, Answer, find_answer, name_of, same
from course_utils.classroom.reading import SubmittedCell, read_cells
from course_utils.classroom.released import Released, ReleasedCell
from course_utils.classroom.source import called_on_lesson, defined


@dataclass(frozen=True)
class Step:
    """A cell of the rebuilt notebook.

    Attributes:
        index: its place in the notebook's cells.
        label: what messages call it.
        released: the released cell; None for a student's own.
        source: what is run.
        from_student: whether the student wrote it.
        copies: of an answer cell, other versions of it that were handed in; each is judged, the best counts.
        is_copy: whether it is such a version, which is shown and not run.
        blank: of an answer cell, whether it is still what was released.
        is_code: whether it is a code cell.
    """

    index: int
    label: str
    released: ReleasedCell | None
    source: str
    from_student: bool
    copies: tuple[str, ...] = ()
    is_copy: bool = False
    blank: bool = False
    is_code: bool = True

    @property
    def role(self) -> str:
        """The released cell's role; ``"added"`` for a student's own cell."""
        return self.released.role if self.released else "added"


@dataclass
class Rebuilt:
    """The rebuilt notebook.

    Attributes:
        notebook: in nbformat's form, without outputs.
        steps: its cells in order.
        repairs: what was changed, one sentence each.
        shuffled: whether cells stood in another order, so that one may need what now comes after it.
    """

    notebook: dict[str, Any]
    steps: list[Step]
    repairs: list[str]
    shuffled: bool = False


def untouched(released: Released) -> Rebuilt:
    """The released notebook itself, for a submission that cannot be read."""
    return _assemble(released, {}, {}, [])


def rebuild(released: Released, submitted: bytes | None, largest_bytes: int) -> Rebuilt:
    """Puts the answers of a submission into the released notebook.

    Args:
        released: what the student got.
        submitted: the bytes that were handed in.
        largest_bytes: of a file that is read.

    Raises:
        Unreadable: it is no notebook; see ``reading``.
    """
    cells, repairs = read_cells(submitted, largest_bytes)
    found = _match(released, cells)
    missing = _missing_texts(released, found)
    cells = [_without(cell, missing) for cell in cells]
    answers = {
        cell.id: find_answer(cell, cells, found, released, repairs)
        for cell in released.cells
        if cell.role in ("answer", "by hand")
    }
    _say_what_else(released, cells, found, repairs)
    taken = set().union(*(answer.shown for answer in answers.values())) if answers else set()
    own = _own_cells(released, cells, found, taken)
    for cell in released.cells:
        if cell.role == "experiment":
            versions = [s.source for s in cells if found.get(s.position) == cell.id and s.kind == "code"]
            if versions and versions[0].strip() != cell.source.strip():
                answers[cell.id] = Answer(versions[0])
    result = _assemble(released, answers, own, repairs)
    order = [found[cell.position] for cell in cells if cell.position in found]
    places = {cell.id: place for place, cell in enumerate(released.cells)}
    moved = [places[name] for name in order]
    result.shuffled = moved != sorted(moved) or any(answer.source == ELSEWHERE for answer in answers.values())
    return result


def _match(released: Released, cells: list[SubmittedCell]) -> dict[int, str]:
    """Which released cell each submitted one is, by position: by id, then by nbgrader's name, then by its very text."""
    by_grade_id = {cell.grade_id: cell.id for cell in released.cells if cell.grade_id}
    found: dict[int, str] = {}
    for cell in cells:
        if cell.id in released.by_id:
            found[cell.position] = cell.id
        elif cell.grade_id in by_grade_id:
            found[cell.position] = by_grade_id[cell.grade_id]
    left = {
        cell.source.strip(): cell.id
        for cell in released.cells
        if cell.id not in found.values() and cell.role not in ("answer", "by hand") and cell.source.strip()
    }
    for cell in cells:
        name = left.get(cell.source.strip())
        if cell.position not in found and name is not None:
            found[cell.position] = name
    return found


def _missing_texts(released: Released, found: dict[int, str]) -> list[str]:
    """What cells that are gone said: in a merge, their text is in another cell now."""
    gone = [cell for cell in released.cells if cell.id not in found.values()]
    return [cell.source.strip() for cell in gone if cell.role in ("text", "check", "set-up") and cell.source.strip()]


def _without(cell: SubmittedCell, texts: list[str]) -> SubmittedCell:
    source = cell.source
    for text in texts:
        if text in source and text != source.strip():
            before, _, after = source.partition(text)
            if (not before or before.endswith("\n")) and (not after or after.startswith("\n")):
                source = f"{before.rstrip()}\n\n{after.lstrip(chr(10))}".strip("\n")
    return cell if source == cell.source else SubmittedCell(cell.position, cell.id, cell.kind, source, cell.grade_id)


def _say_what_else(released: Released, cells: list[SubmittedCell], found: dict[int, str], repairs: list[str]) -> None:
    for cell in released.cells:
        mine = [submitted for submitted in cells if found.get(submitted.position) == cell.id]
        if cell.role not in ("check", "set-up"):
            continue
        what = (
            f"The check cell of {name_of(cell, released)}" if cell.role == "check" else f"The locked cell `{cell.id}`"
        )
        if not mine:
            repairs.append(f"{what} was missing; it was put back.")
        elif any(not same(submitted.source, cell.source) for submitted in mine):
            repairs.append(f"{what} had been edited; the released one was used.")
        if len(mine) > 1:
            repairs.append(f"{what} was there {len(mine)} times; one was kept.")
        if any(submitted.kind != cell.kind for submitted in mine):
            repairs.append(f"{what} had been turned into text; the released one was used.")


def _own_cells(
    released: Released, cells: list[SubmittedCell], found: dict[int, str], taken: set[int]
) -> dict[str, list[SubmittedCell]]:
    """The student's own cells, by the released cell that they follow; the empty name is the notebook's beginning."""
    own: dict[str, list[SubmittedCell]] = {}
    anchor = ""
    for cell in cells:
        name = found.get(cell.position)
        # The first part of a split answer comes before what is left of it.
        if name is not None and (released.by_id[name].role != "answer" or cell.position in taken):
            anchor = name
        if cell.position in taken or not cell.source.strip():
            continue
        if name is not None:
            original = released.by_id[name]
            if original.role in ("text", "experiment") or same(cell.source, original.source):
                continue
            if original.role in ("check", "set-up") and not _adds_code(cell, original):
                continue
        own.setdefault(anchor, []).append(cell)
    return own


def _adds_code(cell: SubmittedCell, original: ReleasedCell) -> bool:
    """Whether an edited locked cell holds definitions of the student's own."""
    return cell.kind == "code" and bool(defined(cell.source)) and called_on_lesson(cell.source) is None


def _assemble(
    released: Released, answers: dict[str, Answer], own: dict[str, list[SubmittedCell]], repairs: list[str]
) -> Rebuilt:
    raw = {cell.id: item for cell, item in zip(released.cells, released.notebook["cells"], strict=True)}
    cells: list[dict[str, Any]] = []
    steps: list[Step] = []
    ids = set(released.by_id)

    def add(step: Step, cell: dict[str, Any]) -> None:
        steps.append(step)
        cells.append(cell)

    def add_own(after: str) -> None:
        for submitted in own.get(after, ()):
            label = f"the added cell {submitted.position + 1}"
            step = Step(len(cells), label, None, submitted.source, True, is_code=submitted.kind == "code")
            add(step, _new_cell(submitted, ids))

    add_own("")
    for cell in released.cells:
        item = copy.deepcopy(raw[cell.id])
        answer = answers.get(cell.id)
        source = cell.source if answer is None else answer.source
        item["source"] = source
        if cell.kind == "code":
            item |= {"outputs": [], "execution_count": None}
        label = _label(cell, released)
        blank = answer.blank if answer else cell.role in ("answer", "by hand")
        copies = tuple(answer.copies) if answer else ()
        add(
            Step(len(cells), label, cell, source, answer is not None, copies, blank=blank, is_code=cell.kind == "code"),
            item,
        )
        for other in answer.others if answer else ():
            step = Step(
                len(cells), f"a copy of {label}", None, other.source, True, is_copy=True, is_code=other.kind == "code"
            )
            add(step, _new_cell(other, ids))
        add_own(cell.id)
    notebook = {**released.notebook, "cells": cells}
    return Rebuilt(notebook, steps, list(dict.fromkeys(repairs)))


def _new_cell(submitted: SubmittedCell, ids: set[str]) -> dict[str, Any]:
    name = f"added-{submitted.position + 1}"
    while name in ids:
        name += "-again"
    ids.add(name)
    cell: dict[str, Any] = {"cell_type": submitted.kind, "id": name, "metadata": {}, "source": submitted.source}
    if submitted.kind == "code":
        cell |= {"outputs": [], "execution_count": None}
    return cell


def _label(cell: ReleasedCell, released: Released) -> str:
    if cell.role == "answer":
        return f"the answer {name_of(cell, released)}"
    if cell.role == "check":
        return f"the check of {name_of(cell, released)}"
    return f"the cell `{cell.id}`"

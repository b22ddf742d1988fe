"""Puts a student's answers into the released notebook (``rebuild``): whatever happened to the cells of what was handed
in, what is graded has every cell of the release, in its order, and the student's own cells in place.

What JupyterLab 4 does to cells: a copy has a new id and the same nbgrader metadata; a merge gives a new id and the
metadata of the active cell; a split keeps the metadata in every part and the id in the last; a cell that was cut and
pasted keeps its id, and where it may not be deleted, the original stays and gets a new one. So cells are found by id,
then by nbgrader's name, then by what they define.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from course_utils.classroom.course.source import Code
from course_utils.classroom.rebuild.answers import Answer, HandedIn, find_answer, name_of, same
from course_utils.classroom.rebuild.reading import SubmittedCell, Unreadable, read_cells
from course_utils.classroom.rebuild.released import ReleasedCell, ReleasedNotebook


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
        blank: of an answer cell, whether it is still what was released, and nothing else that was handed in has the
            text of an answer. Of a question graded by hand, whether nothing was written that could be an answer.
        is_code: whether it is a code cell.
        code: what it and its copies define and use, as far as their text can tell.
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
    code: Code = field(default_factory=Code)

    @property
    def role(self) -> str:
        """The released cell's role; ``"added"`` for a student's own cell."""
        return self.released.role if self.released else "added"

    @property
    def title(self) -> str:
        """The label, as a sentence begins with it."""
        return self.label[:1].upper() + self.label[1:]

    @property
    def is_stub(self) -> bool:
        """Of an answer cell, whether no version of it holds anything."""
        return self.blank and not self.copies


@dataclass
class Rebuilt:
    """The rebuilt notebook.

    Attributes:
        notebook: in nbformat's form, without outputs.
        steps: its cells in order.
        repairs: what was changed, one sentence each.
    """

    notebook: dict[str, Any]
    steps: list[Step]
    repairs: list[str]

    @property
    def own_code(self) -> bool:
        """Whether any code cell holds something of the student's own, which may define an answer in ways unseen."""
        return any(step.is_code and step.from_student and not step.blank for step in self.steps)


EDITED_CHECK = r"The check cell of `([^`]*)` had been edited"  # in what ``repairs`` says


def untouched(released: ReleasedNotebook) -> Rebuilt:
    """The released notebook itself, for a submission that cannot be read."""
    return _assemble(HandedIn(released, [], {}, []), {}, {})


def rebuild(released: ReleasedNotebook, submitted: bytes | None, largest_bytes: int) -> Rebuilt:
    """Puts the answers of a submission into the released notebook.

    Args:
        released: what the student got.
        submitted: the bytes that were handed in.
        largest_bytes: of a file that is read.

    Raises:
        Unreadable: it is no notebook; see ``reading``.
    """
    cells, repairs = read_cells(submitted, largest_bytes)
    names = [cell.grade_id for cell in cells if cell.grade_id]
    if names and not {cell.grade_id for cell in released.cells}.intersection(names):
        raise Unreadable(
            f"This is the notebook of another assignment, whose cells are called {names[0]!r:.80} and so on."
        )
    found = _match(released, cells)
    handed_in = HandedIn(released, cells, found, repairs)
    answers = {cell.id: find_answer(cell, handed_in) for cell in released.cells if cell.role in ("answer", "by hand")}
    _say_what_else(handed_in)
    for cell in (cell for cell in released.cells if cell.role == "experiment"):
        new = [s for s in handed_in.by_id[cell.id] if s.kind == "code" and s.position in handed_in.own]
        if new:
            version = next((version for version in new if version.id == cell.id), new[0])
            answers[cell.id] = Answer(version.source, shown={version.position})
    return _assemble(handed_in, answers, _own_cells(handed_in, answers))


def _match(released: ReleasedNotebook, cells: list[SubmittedCell]) -> dict[int, str]:
    """Which released cell each submitted one is, by position: by id, then by nbgrader's name, then by its very text."""
    by_grade_id = {cell.grade_id: cell.id for cell in released.cells if cell.grade_id}
    names = {cell.position: cell.id if cell.id in released.by_id else by_grade_id.get(cell.grade_id) for cell in cells}
    found = {position: name for position, name in names.items() if name is not None}
    known = set(found.values())
    left: dict[str, list[int]] = defaultdict(list)
    places = {cell.id: place for place, cell in enumerate(released.cells)}
    for name, place in places.items():
        if name not in known:
            left[released.by_id[name].source.strip()].append(place)
    last = -1
    for cell in cells:
        twins = left.get(cell.source.strip())
        if cell.position not in found and twins and cell.source.strip():
            # Of cells with the same text, the next one: "*Your answer here.*" may stand in many places.
            found[cell.position] = released.cells[next((place for place in twins if place > last), twins[0])].id
        last = places[found[cell.position]] if cell.position in found else last
    return found


def _say_what_else(handed_in: HandedIn) -> None:
    for cell in handed_in.released.cells:
        if cell.role in ("check", "set-up"):
            mine, name = handed_in.by_id[cell.id], name_of(cell, handed_in.released)
            locked = f"The check cell of {name}" if cell.role == "check" else f"The locked cell `{cell.id}`"
            said = {
                "was missing; it was put back": not mine,
                "had been edited; the released one was used": not all(same(c.source, cell.source) for c in mine),
                f"was there {len(mine)} times; one was kept": len(mine) > 1,
                "had been turned into text; the released one was used": any(c.kind != cell.kind for c in mine),
            }
            handed_in.repairs += [f"{locked} {what}." for what, holds in said.items() if holds]


def _own_cells(handed_in: HandedIn, answers: dict[str, Answer]) -> dict[str, list[SubmittedCell]]:
    """The student's own cells, by the released cell that they follow; the empty name is the notebook's beginning."""
    taken = set().union(*(answer.shown for answer in answers.values()))
    own: dict[str, list[SubmittedCell]] = defaultdict(list)
    anchor = ""
    for cell in handed_in.cells:
        name = handed_in.found.get(cell.position, "")
        role = handed_in.released.by_id[name].role if name else ""
        theirs = None if cell.position in taken else handed_in.own.get(cell.position)
        # What was added to a check may be what it checks; the first part of a split answer comes before the rest of it.
        if name and role != "check" and (theirs is None or role in ("text", "set-up")):
            anchor = name
        if theirs is not None:
            own[anchor].append(theirs)
        if role == "check":
            anchor = name
    return own


def _assemble(handed_in: HandedIn, answers: dict[str, Answer], own: dict[str, list[SubmittedCell]]) -> Rebuilt:
    released = handed_in.released
    cells: list[dict[str, Any]] = []
    steps: list[Step] = []

    def add(item: dict[str, Any], label: str, cell: ReleasedCell | None, copies: list[str], **more: Any) -> None:
        is_code = item["cell_type"] == "code"
        item |= {"outputs": [], "execution_count": None} if is_code else {}
        known = [handed_in.read(source) for source in (item["source"], *copies)] if is_code else []
        nothing = frozenset[str]()
        code = Code(nothing.union(*(c.defines for c in known)), nothing.union(*(c.uses for c in known)))
        steps.append(
            Step(len(cells), label, cell, item["source"], copies=tuple(copies), is_code=is_code, code=code, **more)
        )
        cells.append(item)

    def add_new(submitted: SubmittedCell, label: str, is_copy: bool = False) -> None:
        name = f"added-{submitted.position + 1}"
        name += "-again" * (name in released.by_id)
        item = {"cell_type": submitted.kind, "id": name, "metadata": {}, "source": submitted.source}
        add(item, label, None, [], from_student=True, is_copy=is_copy)

    for cell, raw in zip((None, *released.cells), ({}, *released.notebook["cells"]), strict=True):
        if cell is not None:
            answer = answers.get(cell.id) or Answer(cell.source, blank=cell.role in ("answer", "by hand"))
            item = copy.deepcopy(raw) | {"source": answer.source}
            label = _label(cell, released)
            add(item, label, cell, answer.copies, from_student=cell.id in answers, blank=answer.blank)
            for other in answer.others:
                add_new(other, f"a copy of {label}", is_copy=True)
        for submitted in own.get(cell.id if cell else "", ()):
            add_new(submitted, f"the added cell {submitted.position + 1}")
    return Rebuilt({**released.notebook, "cells": cells}, steps, list(dict.fromkeys(handed_in.repairs)))


def _label(cell: ReleasedCell, released: ReleasedNotebook) -> str:
    kind = {"answer": "the answer", "check": "the check of"}.get(cell.role)
    return f"{kind} {name_of(cell, released)}" if kind else f"the cell `{cell.id}`"

"""Puts a student's answers into the released notebook (``rebuild``): whatever happened to the cells of what was handed
in, what is graded has every cell of the release, in its order, and the student's own cells in place.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from course_utils.classroom.course.source import Code, called_on_lesson, read_code
from course_utils.classroom.rebuild.answers import Answer, HandedIn, same
from course_utils.classroom.rebuild.reading import Cell, ReleasedCell, ReleasedNotebook, Unreadable, read_cells


@dataclass(frozen=True)
class Step:
    """A cell of the rebuilt notebook.

    Attributes:
        index: its place in the notebook's cells.
        label: what messages call it.
        released: the released cell; None for a student's own.
        source: what is run.
        is_code: whether it is a code cell.
        from_student: whether the student wrote it.
        blank: of a cell that is theirs to fill, whether nothing that was handed in may be an answer.
    """

    index: int
    label: str
    released: ReleasedCell | None
    source: str
    is_code: bool
    from_student: bool
    blank: bool

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
        listed: what the teacher should know of it, one sentence each.
        renamed: of edited checks, by the check's id, what they were handed in place of the answer's own name.
        unread: why nothing that was handed in is graded, in one sentence; empty where something is.
        read: what is known of a cell's source.
    """

    notebook: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    unread: str = ""
    read: Callable[[str], Code] = read_code

    def add(self, item: dict[str, Any], label: str, cell: ReleasedCell | None, answer: Answer | None) -> None:
        """Puts a cell behind the others."""
        is_code, from_student = item["cell_type"] == "code", cell is None or answer is not None
        item |= {"outputs": [], "execution_count": None} if is_code else {}
        if from_student and not is_code:
            item["cell_type"] = "markdown"  # what is raw would act on a page
        blank = answer is not None and answer.blank
        self.steps.append(Step(len(self.steps), label, cell, item["source"], is_code, from_student, blank))
        self.notebook["cells"].append(item)


def rebuild(released: ReleasedNotebook, submitted: bytes | None) -> Rebuilt:
    """Puts the answers of a submission into the released notebook.

    Args:
        released: what the student got.
        submitted: the bytes that were handed in.

    Returns:
        What is to be graded; of what is no notebook, see ``reading``, the released one, and why.
    """
    try:
        cells, repairs = read_cells(submitted)
        names = [cell.grade_id for cell in cells if cell.grade_id]
        if names and not {cell.grade_id for cell in released.cells}.intersection(names):
            of = f"whose cells are called {names[0]!r:.80} and so on."
            raise Unreadable(f"This is the notebook of another assignment, {of}")
    except Unreadable as reason:
        rebuilt = _assembled(released, {}, {})
        rebuilt.repairs, rebuilt.unread = [f"Nothing was graded. {reason}"], str(reason)
        return rebuilt
    handed_in = HandedIn(released, cells)
    answers = handed_in.answers()
    rebuilt = _assembled(released, answers, _own_cells(handed_in, answers))
    rebuilt.repairs, rebuilt.read = [*repairs, *dict.fromkeys(handed_in.repairs)], handed_in.read
    _compare_locked(handed_in, rebuilt)
    return rebuilt


def _compare_locked(handed_in: HandedIn, rebuilt: Rebuilt) -> None:
    """Says which cells that nobody may change had been changed; the released ones are used."""
    for cell in handed_in.released.cells:
        if cell.role not in ("check", "set-up"):
            continue
        mine, name = handed_in.by_id[cell.id], handed_in.released.name_of(cell)
        what = f"check cell of {name}" if cell.role == "check" else f"locked cell `{cell.id}`"
        edited = [one for one in mine if not same(one.source, cell.source)]
        if not mine:
            rebuilt.repairs.append(f"The {what} was missing; it was put back.")
        elif edited:
            call, said = called_on_lesson(edited[0].source), "the released one was used"
            if call and cell.expression and call[2] != cell.expression:
                rebuilt.renamed[cell.id] = call[2]
                said = f"it looked at `{call[2]:.60}`, the released one at `{cell.expression}`"
            told = f"The {what} had been edited; {said}."
            (rebuilt.listed if cell.role == "check" else rebuilt.repairs).append(told)


def _own_cells(handed_in: HandedIn, answers: dict[str, Answer]) -> dict[str, list[Cell]]:
    """The student's own cells, by the released cell that they follow; the empty name is the notebook's beginning."""
    taken = set().union(*(answer.shown for answer in answers.values()))
    own: dict[str, list[Cell]] = defaultdict(list)
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


def _assembled(released: ReleasedNotebook, answers: dict[str, Answer], own: dict[str, list[Cell]]) -> Rebuilt:
    rebuilt = Rebuilt({**released.notebook, "cells": []})
    for cell, raw in zip((None, *released.cells), ({}, *released.notebook["cells"]), strict=True):
        if cell is not None:
            answer = answers.get(cell.id)
            item = copy.deepcopy(raw) | {"source": answer.source if answer else cell.source}
            kind = {"answer": "the answer", "check": "the check of"}.get(cell.role)
            label = f"{kind} {released.name_of(cell)}" if kind else f"the cell `{cell.id}`"
            rebuilt.add(item, label, cell, answer)
        for one in own.get(cell.id if cell else "", ()):
            item = {"cell_type": one.kind, "id": f"added-{one.position + 1}", "metadata": {}, "source": one.source}
            rebuilt.add(item, f"the added cell {one.position + 1}", None, None)
    return rebuilt

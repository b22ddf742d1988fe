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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from course_utils.classroom.course.source import called_on_lesson
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
        blank: of a cell that is theirs to fill, whether nothing that was handed in may be an answer.
        is_stub: of an answer cell, whether it is still what was released.
        is_code: whether it is a code cell.
    """

    index: int
    label: str
    released: ReleasedCell | None
    source: str
    from_student: bool
    blank: bool = False
    is_stub: bool = False
    is_code: bool = True

    @property
    def role(self) -> str:
        """The released cell's role; ``"added"`` for a student's own cell."""
        return self.released.role if self.released else "added"

    @property
    def title(self) -> str:
        """The label, as a sentence begins with it."""
        return self.label[:1].upper() + self.label[1:]


@dataclass
class Rebuilt:
    """The rebuilt notebook.

    Attributes:
        notebook: in nbformat's form, without outputs.
        steps: its cells in order.
        repairs: what was changed, one sentence each.
        listed: what the teacher should know of it, one sentence each.
        renamed: of edited checks, by the check's id, what they were handed in place of the answer's own name.
    """

    notebook: dict[str, Any]
    steps: list[Step]
    repairs: list[str]
    listed: list[str]
    renamed: dict[str, str]

    @property
    def own_code(self) -> bool:
        """Whether any code cell holds something of the student's own, which may define an answer in ways unseen."""
        return any(step.is_code and step.from_student and not step.blank for step in self.steps)


def untouched(released: ReleasedNotebook) -> Rebuilt:
    """The released notebook itself, for a submission that cannot be read."""
    return _assemble(HandedIn(released, [], {}), {}, {})


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
    handed_in = HandedIn(released, cells, _match(released, cells))
    answers = {cell.id: find_answer(cell, handed_in) for cell in released.cells if cell.role in ("answer", "by hand")}
    for cell in released.cells:
        if cell.role == "experiment" and (new := handed_in.new(cell)):
            version = next((version for version in new if version.id == cell.id), new[0])
            answers[cell.id] = Answer(version.source, {version.position})
    rebuilt = _assemble(handed_in, answers, _own_cells(handed_in, answers))
    rebuilt.repairs = [*repairs, *dict.fromkeys(handed_in.repairs)]
    _compare_locked(handed_in, rebuilt)
    return rebuilt


def _match(released: ReleasedNotebook, cells: list[SubmittedCell]) -> dict[int, str]:
    """Which released cell each submitted one is, by position: by id, then by nbgrader's name, then by its very text."""
    by_grade_id = {cell.grade_id: cell.id for cell in released.cells if cell.grade_id}
    names = {cell.position: cell.id if cell.id in released.by_id else by_grade_id.get(cell.grade_id) for cell in cells}
    found = {position: name for position, name in names.items() if name is not None}
    known, left = set(found.values()), defaultdict[str, list[str]](list)
    for one in released.cells:
        if one.id not in known and one.source.strip():
            left[one.source.strip()].append(one.id)
    for cell in cells:
        if cell.position not in found and (twins := left[cell.source.strip()]):
            found[cell.position] = twins.pop(0)  # "*Your answer here.*" may stand in many places
    return found


def _compare_locked(handed_in: HandedIn, rebuilt: Rebuilt) -> None:
    """Says which cells that nobody may change had been changed; the released ones are used."""
    for cell in handed_in.released.cells:
        if cell.role not in ("check", "set-up"):
            continue
        mine, name = handed_in.by_id[cell.id], name_of(cell, handed_in.released)
        what = f"check cell of {name}" if cell.role == "check" else f"locked cell `{cell.id}`"
        edited = [one for one in mine if not same(one.source, cell.source)]
        if not mine:
            rebuilt.repairs.append(f"The {what} was missing; it was put back.")
        elif edited and cell.role == "set-up":
            rebuilt.repairs.append(f"The {what} had been edited; the released one was used.")
        elif edited:
            call, said = called_on_lesson(edited[0].source), "the released one was used"
            if call and cell.expression and call[2] != cell.expression:
                rebuilt.renamed[cell.id] = call[2]
                said = f"it looked at `{call[2]:.60}`, the released one at `{cell.expression}`"
            rebuilt.listed.append(f"The {what} had been edited; {said}.")


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
    released, steps = handed_in.released, list[Step]()

    def items() -> Iterator[tuple[dict[str, Any], str, ReleasedCell | None]]:
        for cell, raw in zip((None, *released.cells), ({}, *released.notebook["cells"]), strict=True):
            if cell is not None:
                source = answers[cell.id].source if cell.id in answers else cell.source
                yield copy.deepcopy(raw) | {"source": source}, _label(cell, released), cell
            for one in own.get(cell.id if cell else "", ()):
                name = f"added-{one.position + 1}" + "-again" * (f"added-{one.position + 1}" in released.by_id)
                item = {"cell_type": one.kind, "id": name, "metadata": {}, "source": one.source}
                yield item, f"the added cell {one.position + 1}", None

    cells = list[dict[str, Any]]()
    for item, label, cell in items():
        is_code = item["cell_type"] == "code"
        item |= {"outputs": [], "execution_count": None} if is_code else {}
        fills = cell is not None and cell.role in ("answer", "by hand")
        answer = (answers.get(cell.id) or Answer("", blank=fills)) if cell else None
        from_student = cell is None or cell.id in answers
        if from_student and not is_code:
            item["cell_type"] = "markdown"  # what is raw would act on a page
        stub = bool(cell and cell.role == "answer" and same(item["source"], cell.source))
        about = {"blank": bool(answer and answer.blank), "is_stub": stub, "is_code": is_code}
        steps.append(Step(len(cells), label, cell, item["source"], from_student, **about))
        cells.append(item)
    return Rebuilt({**released.notebook, "cells": cells}, steps, [], [], {})


def _label(cell: ReleasedCell, released: ReleasedNotebook) -> str:
    kind = {"answer": "the answer", "check": "the check of"}.get(cell.role)
    return f"{kind} {name_of(cell, released)}" if kind else f"the cell `{cell.id}`"

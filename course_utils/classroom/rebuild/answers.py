"""Finds a student's answers among the cells of what was handed in (``HandedIn``), also where these were copied, split,
merged, moved or retyped.

What JupyterLab 4 does to cells: a copy has a new id and the same nbgrader metadata; a merge gives a new id and the
metadata of the active cell; a split keeps the metadata in every part and the id in the last; a cell that was cut and
pasted keeps its id, and where it may not be deleted, the original stays and gets a new one. So cells are found by id,
then by nbgrader's name, then by their very text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

from course_utils.classroom.course.source import Code, read_code
from course_utils.classroom.rebuild.reading import Cell, ReleasedCell, ReleasedNotebook

_MOST_CODE = 100_000  # characters that are read of all that is new in a notebook
_NOTHING_ADDED = re.compile(r"\W*|\s*\w+\.check\([^\n;]*\)\s*")  # a check that was commented out, or changed


@dataclass
class Answer:
    """What a student put into one released cell.

    Attributes:
        source: the cell's text.
        shown: positions of submitted cells that it stands for.
        blank: whether nothing that was handed in may be an answer.
    """

    source: str
    shown: set[int] = field(default_factory=set)
    blank: bool = False


class HandedIn:
    """What a student handed in, beside what they were given (``released``).

    Attributes:
        cells: in order, without what released cells said that are gone: a merge put their text into another cell.
        found: which released cell each of them is, by position; ``by_id`` has them by its id.
        own: what of each is the student's, by position: all of it, or what was added to a released cell that is not
            theirs to fill. Cells in which nothing is are left out.
        repairs: gets a sentence for everything that is mended.
    """

    def __init__(self, released: ReleasedNotebook, cells: list[Cell]):
        self.released, self.found, self.repairs = released, _match(released, cells), list[str]()
        known, given = set(self.found.values()), (*released.earlier, *released.cells)
        gone = [cell for cell in given if cell.id not in known and cell.role not in ("answer", "experiment")]
        texts = [cell.source.strip() for cell in gone]
        # What an earlier release said counts as what this one says.
        now = {(cell.id, cell.source.strip()): released.by_id.get(cell.id, cell).source for cell in released.earlier}
        said = [now.get((self.found.get(cell.position, ""), cell.source.strip()), cell.source) for cell in cells]
        self.cells = [replace(cell, source=_without(text, texts)) for cell, text in zip(cells, said, strict=True)]
        self._given = {cell.source.strip(): cell.role for cell in given}
        self.by_id = defaultdict[str, list[Cell]](list)
        self.own: dict[int, Cell] = {}
        for cell in self.cells:
            original = released.by_id.get(self.found.get(cell.position, ""))
            if original:
                self.by_id[original.id].append(cell)
            if (source := self._own(cell, original)).strip():
                self.own[cell.position] = replace(cell, source=source)
        self._read, self._room = {cell.source: cell.code for cell in released.cells}, _MOST_CODE
        for source in sorted({cell.source for cell in self.own.values() if cell.kind != "markdown"}, key=len):
            self.read(source)

    def _own(self, cell: Cell, original: ReleasedCell | None) -> str:
        if original is None:
            # A second stub would even undo the answer.
            said = self._given.get(cell.source.strip()) in ("answer", "by hand", "check", "text")
            return "" if said else cell.source
        if same(cell.source, original.source):
            return ""
        if original.role in ("answer", "by hand", "experiment"):
            return cell.source
        rest = cell.source.replace(original.source.strip(), "", 1).strip("\n")
        return "" if _NOTHING_ADDED.fullmatch(rest) else rest

    def read(self, source: str) -> Code:
        """What a source defines; each is read once, and no more of all together than would take seconds."""
        if source not in self._read:
            self._room -= len(source)
            self._read[source] = read_code(source) if self._room > 0 else Code()
        return self._read[source]

    def _is_new(self, cell: Cell) -> bool:
        return bool(cell.source.strip()) and cell.source.strip() not in self._given

    def answers(self) -> dict[str, Answer]:
        """By the released cell's id: what a student put into cells that are theirs to fill, and into experiments that
        they changed. Other versions of an answer are cells of their own, run where they stand."""
        found = {}
        for cell in self.released.cells:
            mine, name = self.by_id[cell.id], self.released.name_of(cell)
            new = [one for one in mine if self._is_new(one)]
            if cell.role in ("answer", "by hand"):
                if not mine:
                    self.repairs.append(f"The cell of {name} was missing; it was put back as it was released.")
                found[cell.id] = (self._code if cell.role == "answer" else self._text)(cell, name, new)
                found[cell.id].shown |= {one.position for one in mine if one not in new}
            elif cell.role == "experiment" and new:
                found[cell.id] = _version(cell, new)
        return found

    def _code(self, cell: ReleasedCell, name: str, new: list[Cell]) -> Answer:
        if any(one.kind != "code" for one in self.by_id[cell.id]):
            self.repairs.append(f"The answer cell of {name} had been turned into text; it was read as code.")
        whole = "\n".join(one.source for one in new)
        if len(new) > 1 and not all(self.read(c.source).is_whole for c in new) and self._defines(cell, whole):
            self.repairs.append(f"The answer cell of {name} had been split in {len(new)}; the parts were put together.")
            return Answer(whole, {one.position for one in new})
        if len(new) > 1:
            self.repairs.append(f"The answer {name} stands in {len(new)} cells; they were run in their order.")
        if new:
            return _version(cell, new)
        elsewhere = [one.position + 1 for one in self.own.values() if self._defines(cell, one.source)]
        self.repairs += [f"The answer {name} was found in cell {place}." for place in elsewhere[:1]]
        # Run, a stub would take the place of the answer that was made elsewhere.
        return Answer("") if elsewhere else Answer(cell.source, blank=True)

    def _defines(self, cell: ReleasedCell, source: str) -> bool:
        return bool(cell.names & self.read(source).defines)

    def _text(self, cell: ReleasedCell, name: str, new: list[Cell]) -> Answer:
        """What was written to a question that a person grades: blank only where no words could be meant."""
        if cell.is_task:
            return Answer(cell.source)
        if len(new) > 1:
            self.repairs.append(f"The text of {name} stands in {len(new)} cells; they were put together.")
        if new:
            return Answer("\n\n".join(dict.fromkeys(one.source for one in new)), {one.position for one in new})
        # Words, or what is no code, where nobody had asked for any; any code, where the question is a code cell.
        asked = {one.id for one in self.released.cells if one.role in ("answer", "by hand")}
        places = [
            str(one.position + 1)
            for one in self.own.values()
            if self.found.get(one.position) not in asked and self._is_new(one)
            if one.kind != "code" or cell.kind == "code" or self.read(one.source).is_text
        ]
        if places:
            said = "was left as it was released; your teacher reads what may be meant, in cell"
            self.repairs.append(f"The answer to {name} {said} {', '.join(places[:5])}.")
        return Answer(cell.source, blank=not places)


def _match(released: ReleasedNotebook, cells: list[Cell]) -> dict[int, str]:
    """Which released cell each submitted one is, by position."""
    by_grade_id = {cell.grade_id: cell.id for cell in released.cells if cell.grade_id}
    names = {cell.position: cell.id if cell.id in released.by_id else by_grade_id.get(cell.grade_id) for cell in cells}
    found = {position: name for position, name in names.items() if name is not None}
    known, left = set(found.values()), defaultdict[str, list[str]](list)
    for one in (*released.cells, *released.earlier):
        if one.id not in known and one.id in released.by_id and one.source.strip():
            left[one.source.strip()].append(one.id)
    for cell in cells:
        if cell.position not in found and (twins := left[cell.source.strip()]):
            found[cell.position] = twins.pop(0)  # "*Your answer here.*" may stand in many places
    return found


def _version(cell: ReleasedCell, new: list[Cell]) -> Answer:
    """Of several versions that in the cell itself, else the first."""
    chosen = next((one for one in new if one.id == cell.id), new[0])
    return Answer(chosen.source, {chosen.position})


def _without(source: str, texts: list[str]) -> str:
    """The source without texts that stand in it in lines of their own."""
    for text in texts:
        if text and text in source and text != source.strip():
            before, _, after = source.partition(text)
            if (not before or before.endswith("\n")) and (not after or after.startswith("\n")):
                source = f"{before.rstrip()}\n\n{after.lstrip(chr(10))}".strip("\n")
    return source


def same(one: str, other: str) -> bool:
    """Whether two sources differ in nothing but the lines around them."""
    return one.strip() == other.strip()

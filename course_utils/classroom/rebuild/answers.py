"""Finds a student's answers among the cells of what was handed in (``find_answer``), also where these were copied,
split, merged, moved or retyped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from course_utils.classroom.course.source import Code, read_code
from course_utils.classroom.rebuild.reading import SubmittedCell
from course_utils.classroom.rebuild.released import ReleasedCell, ReleasedNotebook

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

    def __init__(self, released: ReleasedNotebook, cells: list[SubmittedCell], found: dict[int, str]):
        known = set(found.values())
        gone = [cell for cell in released.cells if cell.id not in known and cell.role not in ("answer", "experiment")]
        texts = [cell.source.strip() for cell in gone]
        self.cells = [replace(cell, source=_without(cell.source, texts)) for cell in cells]
        self.released, self.found, self.repairs = released, found, list[str]()
        self._given = {cell.source.strip(): cell.role for cell in released.cells}
        self.by_id: dict[str, list[SubmittedCell]] = {cell.id: [] for cell in released.cells}
        self.own: dict[int, SubmittedCell] = {}
        for cell in self.cells:
            original = released.by_id.get(found.get(cell.position, ""))
            if original:
                self.by_id[original.id].append(cell)
            source = self._own(cell, original)
            if source.strip():
                self.own[cell.position] = replace(cell, source=source)
        self._read = {cell.source: cell.code for cell in released.cells}
        self._room = _MOST_CODE
        for source in sorted({cell.source for cell in self.own.values() if cell.kind != "markdown"}, key=len):
            self.read(source)

    def _own(self, cell: SubmittedCell, original: ReleasedCell | None) -> str:
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

    def new(self, released: ReleasedCell) -> list[SubmittedCell]:
        """The cells that a student filled, of those that are this released one."""
        return [cell for cell in self.by_id[released.id] if cell.source.strip() and not self._is_given(cell)]

    def unasked(self, kind: str) -> list[SubmittedCell]:
        """Where the student wrote words, or what is no code, and nobody had asked for any; any code, where the question
        is a cell of that ``kind``."""
        asked = {cell.id for cell in self.released.cells if cell.role in ("answer", "by hand")}
        cells = [cell for cell in self.own.values() if self.found.get(cell.position) not in asked]
        return [
            c
            for c in cells
            if not self._is_given(c) and (c.kind != "code" or kind == "code" or self.read(c.source).is_text)
        ]

    def _is_given(self, cell: SubmittedCell) -> bool:
        return cell.source.strip() in self._given


def find_answer(released: ReleasedCell, handed_in: HandedIn) -> Answer:
    """What a student put into a cell that is theirs to fill. Other versions of an answer are cells of their own, run
    where they stand."""
    name, read, repairs = name_of(released, handed_in.released), handed_in.read, handed_in.repairs
    mine, new = handed_in.by_id[released.id], handed_in.new(released)
    shown = {cell.position for cell in mine if cell not in new}
    if not mine:
        repairs.append(f"The cell of {name} was missing; it was put back as it was released.")
    if released.role == "by hand":
        return _written(released, handed_in, name, shown)
    if any(cell.kind != "code" for cell in mine):
        repairs.append(f"The answer cell of {name} had been turned into text; it was read as code.")
    whole = "\n".join(cell.source for cell in new)
    if len(new) > 1 and not all(read(c.source).is_whole for c in new) and read(whole).defines & released.names:
        repairs.append(f"The answer cell of {name} had been split in {len(new)}; the parts were put together.")
        return Answer(whole, shown | {cell.position for cell in new})
    if new:
        if len(new) > 1:
            repairs.append(f"The answer {name} stands in {len(new)} cells; they were run in their order.")
        chosen = next((cell for cell in new if cell.id == released.id), new[0])
        return Answer(chosen.source, shown | {chosen.position})
    elsewhere = [cell for cell in handed_in.own.values() if released.names & read(cell.source).defines]
    repairs += [f"The answer {name} was found in cell {cell.position + 1}." for cell in elsewhere[:1]]
    return Answer(released.source, shown, blank=not elsewhere)


def _written(released: ReleasedCell, handed_in: HandedIn, name: str, shown: set[int]) -> Answer:
    """What was written to a question that a person grades: blank only where there are no words that could be meant."""
    theirs = handed_in.new(released)
    if theirs and not released.is_task:
        if len(theirs) > 1:
            handed_in.repairs.append(f"The text of {name} stands in {len(theirs)} cells; they were put together.")
        text = "\n\n".join(dict.fromkeys(cell.source for cell in theirs))
        return Answer(text, shown | {cell.position for cell in theirs})
    unasked = handed_in.unasked(released.kind)
    if unasked and not released.is_task:
        places = ", ".join(str(cell.position + 1) for cell in unasked[:5])
        said = "was left as it was released; your teacher reads what may be meant, in cell"
        handed_in.repairs.append(f"The answer to {name} {said} {places}.")
    return Answer(released.source, shown, blank=not (unasked or released.is_task))


def _without(source: str, texts: list[str]) -> str:
    """The source without texts that stand in it in lines of their own."""
    for text in texts:
        if text and text in source and text != source.strip():
            before, _, after = source.partition(text)
            if (not before or before.endswith("\n")) and (not after or after.startswith("\n")):
                source = f"{before.rstrip()}\n\n{after.lstrip(chr(10))}".strip("\n")
    return source


def name_of(cell: ReleasedCell, released: ReleasedNotebook) -> str:
    """What an exercise is called, in backticks."""
    return f"`{next((check for check in released.cells if check.answer == cell.id), cell).name}`"


def same(one: str, other: str) -> bool:
    """Whether two sources differ in nothing but the lines around them."""
    return one.strip() == other.strip()

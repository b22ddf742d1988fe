"""Finds a student's answers among the cells of what was handed in (``find_answer``), also where these were copied,
split, merged, moved or retyped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from course_utils.classroom.course.source import Reader
from course_utils.classroom.rebuild.reading import SubmittedCell
from course_utils.classroom.rebuild.released import ReleasedCell, ReleasedNotebook

ELSEWHERE = "# This answer stands in another cell of the notebook that was handed in."
_NOTHING_ADDED = re.compile(r"\W*|\s*\w+\.check\([^\n;]*\)\s*")  # a check that was commented out, or changed


@dataclass
class Answer:
    """What is known of one released cell that a student fills in."""

    source: str
    copies: list[str] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)  # positions of submitted cells that this answer stands for
    others: list[SubmittedCell] = field(default_factory=list)  # shown as copies
    blank: bool = False


class HandedIn:
    """What a student handed in, beside what they were given (``released``).

    Attributes:
        cells: in order, without what released cells said that are gone: a merge put their text into another cell.
        found: which released cell each of them is, by position; ``by_id`` has them by its id.
        own: what of each is the student's, by position: all of it, or what was added to a released cell that is not
            theirs to fill. Cells in which nothing is are left out.
        read: tells what a source defines and uses.
        repairs: gets a sentence for everything that is mended.
    """

    def __init__(
        self, released: ReleasedNotebook, cells: list[SubmittedCell], found: dict[int, str], repairs: list[str]
    ):
        known = set(found.values())
        gone = [cell for cell in released.cells if cell.id not in known and cell.role not in ("answer", "experiment")]
        texts = [cell.source.strip() for cell in gone]
        self.cells = [replace(cell, source=_without(cell.source, texts)) for cell in cells]
        self.released, self.found, self.repairs = released, found, repairs
        self.read = Reader({cell.source: cell.code for cell in released.cells})
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

    def is_new(self, cell: SubmittedCell) -> bool:
        return bool(cell.source.strip()) and cell.source.strip() not in self._given

    def unasked(self, kind: str) -> list[SubmittedCell]:
        """Where the student wrote words, or code where that is the ``kind``, and nobody had asked for any."""
        asked = {cell.id for cell in self.released.cells if cell.role in ("answer", "by hand")}
        cells = [cell for cell in self.own.values() if self.found.get(cell.position) not in asked and self.is_new(cell)]
        words = kind != "code"
        return [c for c in cells if (c.kind != "code") == words or (words and self.read(c.source).is_text)]

    def beside(self, question: ReleasedCell) -> set[int]:
        """The positions from the released cell before a question to the one after it, wherever these stand."""
        ids = [cell.id for cell in self.released.cells]
        before = next((name for name in reversed(ids[: ids.index(question.id)]) if self.by_id[name]), "")
        last = ""
        return {c.position for c in self.cells if (last := self.found.get(c.position, last)) in (before, question.id)}


def find_answer(released: ReleasedCell, handed_in: HandedIn) -> Answer:
    """What a student put into a cell that is theirs to fill."""
    name, read, repairs = name_of(released, handed_in.released), handed_in.read, handed_in.repairs
    if released.role == "by hand":
        return _written(released, handed_in, name)
    mine = handed_in.by_id[released.id]
    new = [cell for cell in mine if handed_in.is_new(cell)]
    versions = [cell for cell in new if released.names & read(cell.source).defines]
    others = [
        cell
        for cell in handed_in.own.values()
        if cell.kind != "markdown"
        and handed_in.found.get(cell.position) != released.id
        and released.names & read(cell.source).defines
        and handed_in.is_new(cell)
    ]
    if any(cell.kind != "code" for cell in mine):
        repairs.append(f"The answer cell of {name} had been turned into text; it was read as code.")
    whole = "\n".join(cell.source for cell in new)
    parts = len(new) > 1 and read(whole).is_whole and released.names & read(whole).defines
    cut = not all(read(cell.source).is_whole for cell in new)  # in the middle of the function
    shown = {cell.position for cell in mine} - {cell.position for cell in new}
    if parts and (cut or not (versions or others)):
        repairs.append(f"The answer cell of {name} had been split in {len(new)}; the parts were put together.")
        return Answer(whole, [cell.source for cell in versions], shown | {cell.position for cell in new})
    if not mine and not others:
        repairs.append(f"The answer cell of {name} was missing; it was put back as it was released.")
    if not versions and not others:
        # A stub, code that cannot be read, or an answer that is made in a way that the text does not show.
        shown |= {cell.position for cell in new[:1]}
        return Answer(new[0].source if new else released.source, shown=shown, blank=not new)
    first = next((cell for cell in versions if cell.id == released.id), (*versions, *others)[0])
    sources = [cell.source for cell in (*versions, *others)]
    if len(sources) > 1:
        repairs.append(f"The answer {name} stands in {len(sources)} cells; each was judged, and the best one counts.")
    sources += [whole] if parts and len(versions) > 1 else []
    copies = [source for source in dict.fromkeys(sources) if not same(source, first.source)]
    if versions:
        shown |= {cell.position for cell in versions}
        return Answer(first.source, copies, shown, [cell for cell in versions if cell is not first])
    lost = "the released cell was left as it was" if mine else "it had lost its place"
    if read(first.source).defines <= released.names or first.grade_id == "":
        repairs.append(f"The answer {name} was found in cell {first.position + 1}; {lost}.")
    return Answer(ELSEWHERE, [first.source, *copies], shown)


def _written(released: ReleasedCell, handed_in: HandedIn, name: str) -> Answer:
    """What was written to a question that a person grades: blank only where there are no words that could be meant."""
    mine = handed_in.by_id[released.id]
    shown = {cell.position for cell in mine}
    if released.is_task:
        return Answer(released.source, shown=shown - {cell.position for cell in mine if handed_in.is_new(cell)})
    theirs = [cell for cell in mine if handed_in.is_new(cell)]
    unasked = [] if theirs else handed_in.unasked(released.kind)
    if not mine and not unasked:
        handed_in.repairs.append(f"The cell for {name} was missing; it was put back as it was released.")
    if len(theirs) > 1:
        handed_in.repairs.append(f"The text of {name} stands in {len(theirs)} cells; they were put together.")
    if unasked:
        # Code stays where it runs.
        beside = handed_in.beside(released) if released.kind != "code" else ()
        theirs = [cell for cell in unasked if cell.position in beside]
        shown |= {cell.position for cell in theirs if cell.kind != "code"}
        places = ", ".join(str(cell.position + 1) for cell in (theirs or unasked)[:5])
        what = "was found in" if theirs else "was left as it was released; your teacher reads what may be meant, in"
        handed_in.repairs.append(f"The answer to {name} {what} cell {places}.")
    text = "\n\n".join(dict.fromkeys(cell.source for cell in theirs)) or released.source
    return Answer(text, shown=shown, blank=not (theirs or unasked))


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

"""Which line of the user's puts something into what keeps it: of those that the source shows, one that ran."""

import dis
import re
from collections.abc import Collection, Iterator
from types import CodeType

from course_utils.base.user_code import Site, frames_of_all_threads, is_user_file
from course_utils.holders.holder import Holder
from course_utils.source.keeping import keeping_line

_ADDS = r"\.(append|appendleft|extend|insert|add|update|setdefault|put)\(|\[[^=]*\]\s*=[^=]|\s*[-+*/|&@]=[^=]"
_BINDS = r"|\s*=[^=]"


class Ran:
    """The code of the user's functions that ran, and which of its lines did.

    Python makes an instruction that has run several times quicker, by one that is special for what it met, and shows
    which it has made so: nothing needs to be traced.
    """

    def __init__(self) -> None:
        self._codes: dict[CodeType, None] = {}

    def note(self) -> None:
        """Notes the functions that are running."""
        codes = [frame.f_code for frame in frames_of_all_threads()]
        self._codes |= dict.fromkeys(code for code in codes if is_user_file(code.co_filename))

    def keeping_line(self, holder: Holder, near: Collection[str] = ()) -> Site | None:
        """The line that makes a holder keep something; None where the source does not show it.

        Where the line that the source shows has not run, or only makes the object whose attribute it is, and one that
        adds to the same name, or binds it, has run, that is the one.
        """
        shown, name = keeping_line(holder, near), re.escape(holder.tail[1])
        if shown is None or not name or holder.library or holder.kind not in ("variable", "container"):
            return shown
        adds = re.compile(rf"\b{name}\b['\"\])]*({_ADDS}{_BINDS if holder.kind == 'variable' else ''})")
        ran = {(site.file, site.line): site for site in self._lines(shown.file)}
        others = [site for site in ran.values() if adds.search(site.source)]
        is_another = holder.tail[0] == "attribute" and holder.kind == "variable" and not adds.search(shown.source)
        return others[0] if others and (is_another or (shown.file, shown.line) not in ran) else shown

    def _lines(self, file: str) -> Iterator[Site]:
        waiting = [code for code in self._codes if code.co_filename == file]
        seen = set(waiting)
        while waiting:
            code = waiting.pop()
            inside = {one for one in code.co_consts if isinstance(one, CodeType)} - seen
            seen |= inside
            waiting += inside
            for instruction in dis.get_instructions(code, adaptive=True):
                number = instruction.positions.lineno if instruction.positions is not None else None
                if number is not None and _is_special(instruction.opname):
                    yield Site(file, number, code.co_qualname)


def _is_special(name: str) -> bool:
    waits = name.endswith(("_ADAPTIVE", "_QUICK")) or "__" in name or name.startswith("INSTRUMENTED")
    return name not in dis.opmap and not waits

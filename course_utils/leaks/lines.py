"""What the user's source shows of a holder: which of the lines that keep did run (``Ran``), and whether what is kept is
only logged (``is_only_logged``).
"""

import ast
import dis
from collections.abc import Iterator
from types import CodeType

from course_utils.base.user_code import Site, frames_of_all_threads, is_user_file
from course_utils.holders.holder import Holder
from course_utils.source.statements import called_name, parsed, parts_of

_TORCHS = ("torch", "F", "nn", "functional")
_OF_CONTAINERS = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "clear", "pop", "popleft",
                  "copy", "items", "values", "keys", "get", "put", "sort", "index", "count", "remove")  # fmt: skip


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

    def lines(self) -> set[tuple[str, int]]:
        """Files and numbers of the lines that ran several times in these functions, and in those inside of them."""
        waiting, lines = dict(self._codes), set()
        while waiting:
            code, _ = waiting.popitem()
            waiting |= dict.fromkeys(one for one in code.co_consts if isinstance(one, CodeType))
            for instruction in dis.get_instructions(code, adaptive=True):
                number = instruction.positions.lineno if instruction.positions is not None else None
                if number is not None and _is_special(instruction.opname):
                    lines.add((code.co_filename, number))
        return lines


def _is_special(name: str) -> bool:
    waits = name.endswith(("_ADAPTIVE", "_QUICK")) or "__" in name or name.startswith("INSTRUMENTED")
    return name not in dis.opmap and not waits


def is_only_logged(holder: Holder, line: Site | None) -> bool:
    """Whether a plain number will do in place of a tensor: nothing that only a tensor can do is done with what is kept.

    Looked at is the file of the line that keeps; what is computed from the holder, or is returned, counts too. In doubt
    a tensor is needed.
    """
    tree = parsed(line.file) if line is not None else None
    if tree is None:
        return False
    names = {holder.tail[1]}
    for _ in range(3):
        names |= {name for node in ast.walk(tree) for name in _handed_on(node, names)}
    return not any(_needs_a_tensor(node, names) for node in ast.walk(tree))


def _handed_on(node: ast.AST, names: set[str]) -> Iterator[str]:
    """Names that are bound to what is computed from some names, and functions that return it."""
    if isinstance(node, ast.FunctionDef):
        returned = (part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value)
        if any(_mentions(value, names) for value in returned):
            yield node.name
    elif isinstance(node, (ast.Assign, ast.For, ast.comprehension)):
        value = node.value if isinstance(node, ast.Assign) else node.iter
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if _mentions(value, names):
            yield from (_name(part) for target in targets for part in parts_of(target))


def _needs_a_tensor(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr not in (*_OF_CONTAINERS, *names) and _name(node.value) in names
    if not isinstance(node, ast.Call):
        return False
    if called_name(node) == "register_buffer":
        return any(isinstance(word, ast.Constant) and word.value in names for word in node.args)
    of_torchs = ast.unparse(node.func).partition(".")[0] in _TORCHS and called_name(node) not in ("tensor", "as_tensor")
    return of_torchs and any(_mentions(word, names) for word in node.args)


def _name(node: ast.AST) -> str:
    """``total``: of ``total``, ``self.total``, ``total[-1]``, ``total(...)``."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return getattr(node, "attr", getattr(node, "id", ""))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    """Whether something is computed from some names that is no plain number."""
    if called_name(node) in ("item", "float", "int", "len", "str", "tolist"):
        return False
    return any(_name(part) in names for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))

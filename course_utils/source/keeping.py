"""The user's line that keeps: the statement that puts something into a variable, an attribute or a container
(``keeping_line``). It is found in the source, by name.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from course_utils.base.user_code import Site
from course_utils.holders.holder import Holder
from course_utils.source import called_name, in_functions, parsed, parts_of, statement_at, statements, users_files

_ADDS = {
    "append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "put", "push",
    "put_nowait", "register_buffer", "__setitem__", "set", "add_param_group",
}  # fmt: skip
_MAKES_EMPTY = {"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "zeros", "tensor", "empty"}
_ADDS_TO_FIRST = {"heappush", "heappushpop", "insort", "insort_left", "insort_right", "setattr"}

Ran = Collection[tuple[str, int]]


def keeping_line(holder: Holder, ran: Ran, near: Collection[str] = ()) -> Site | None:
    """The line that makes a holder keep something; None where the source does not show it.

    The holder's own file is looked at and those that are near; all others only where these show nothing. Of several
    lines, one that is known to have run comes first, then one in the function whose variable it is, or in the same
    file; one that adds comes before one that binds anew, and one that stores a plain number comes last.
    """
    if holder.kind == "nobody":
        return None
    if holder.kind == "building":
        return Site(holder.file, holder.first_line, holder.where)
    files = [holder.file, *(file for file in users_files() if file != holder.file)]
    close = [file for file in files if file == holder.file or file in near]
    return _line_in(close, holder, ran) or _line_in(files, holder, ran)


def _line_in(files: Sequence[str], holder: Holder, ran: Ran) -> Site | None:
    best: tuple[int, int, Site] | None = None
    for place, worth, site in (found for file in files for found in _candidates(file, holder)):
        place += 16 * ((site.file, site.line) in ran)
        if best is None or place > best[0]:
            best = place, worth, site
    if best is None and holder.before_tail[0]:
        # Under a key that the source does not spell out, or inside of an object that adds for its user: ``queue.put``.
        outside = _line_in(files, replace(holder, tail=holder.before_tail, before_tail=("", "")), ran)
        if outside is not None:
            return outside
    if best is not None and best[1] <= 2 and (other := _same_under_another_name(best[2], holder)) is not None:
        return _line_in(files, other, ran) or best[2]
    if best is None or best[1] <= 2:
        for alias in _aliases(files, holder):
            for *_, site in _candidates(alias.file, alias):
                return site
    return best[2] if best is not None else None


def _same_under_another_name(site: Site, holder: Holder) -> Holder | None:
    """What a line gives a variable to hold, where that is another's: ``actions = model.saved_actions``."""
    statement = statement_at(site)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(value, ast.Attribute):
        return replace(holder, tail=("attribute", value.attr), scope="attribute", where="", before_tail=("", ""))
    return None


def _aliases(files: Sequence[str], holder: Holder) -> Iterator[Holder]:
    """The holder under the name that a function gives it which it is handed to: ``note(losses, loss)``."""
    called: list[tuple[str, int | str]] = []
    for file in files:
        for node in ast.walk(parsed(file, holder.tail[1])):
            if isinstance(node, ast.Call):
                name = called_name(node)
                called += [(name, at) for at, value in enumerate(node.args) if _ends_in(value, holder.tail)]
                called += [(name, word.arg) for word in node.keywords if word.arg and _ends_in(word.value, holder.tail)]
                # Handed on with a function: ``partial(note, losses)``, ``pool.submit(note, losses)``.
                handed = getattr(node.args[0], "attr", getattr(node.args[0], "id", "")) if node.args else ""
                called += [(handed, at) for at, value in enumerate(node.args[1:]) if _ends_in(value, holder.tail)]
    for file in dict.fromkeys((*files, *users_files())) if called else ():
        for function, node in in_functions(parsed(file, *{name for name, _ in called})):
            for name, at in called if isinstance(node, ast.FunctionDef) else ():
                words = [argument.arg for argument in node.args.args]
                words = words[1:] if words[:1] == ["self"] else words
                word = at if isinstance(at, str) else words[at] if at < len(words) else ""
                if node.name == name or (node.name == "__init__" and function.endswith(f"{name}.__init__")):
                    yield replace(
                        holder, tail=("name", word), scope="local", where=function, file=file, first_line=node.lineno
                    )


def _candidates(file: str, holder: Holder) -> Iterator[tuple[int, int, Site]]:
    """Lines that may be the one: how likely each is where it stands, how likely by itself (``_worth``), the line."""
    of_a_function = holder.scope in ("local", "variable", "default") and holder.tail[0] != "attribute"
    if of_a_function and file != holder.file:
        return
    for function, statement in statements(parsed(file, holder.tail[1])):
        worth = _worth(statement, holder)
        if not worth:
            continue
        if of_a_function and not (holder.first_line <= statement.lineno and _within(function, holder.where)):
            continue
        in_class = holder.scope == "attribute" and holder.where and holder.where in function.split(".")
        place = (4 if in_class else 0) + (8 if file == holder.file else 0)
        yield worth + place, worth, Site(file, statement.lineno, function)


def _within(function: str, where: str) -> bool:
    return function == where or function.startswith(f"{where}.")


def _worth(statement: ast.stmt, holder: Holder) -> int:
    """How likely a statement is the one; 0 where it is not."""
    tail = holder.tail
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS:
            receiver = node.func.value
            named_buffer = node.func.attr == "register_buffer" and any(_is_text(arg, tail[1]) for arg in node.args)
            if _ends_in(receiver, tail) or named_buffer or _inside(receiver, tail):
                return 1 if any(_is_number(arg) for arg in node.args) else 5
        if isinstance(node, ast.Call) and tail[0] == "call" and called_name(node).endswith(tail[1]):
            return 5
        if isinstance(node, ast.Call) and called_name(node) in _ADDS_TO_FIRST and _ends_in(node.args[0], tail):
            return 5
        method = node.func if holder.library and isinstance(node, ast.Call) and node.args else None
        if isinstance(method, ast.Attribute) and _ends_in(method.value, tail):
            return 3  # handed to a library's object, by a method of its own name
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if holder.kind == "cycle" and stored and _ends_in(node, tail):
            return 6
    if isinstance(statement, ast.AugAssign) and (_ends_in(statement.target, tail) or _inside(statement.target, tail)):
        return 1 if _is_number(statement.value) else 5
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in (part for whole in targets for part in parts_of(whole)):
            if isinstance(target, ast.Subscript) and (
                _ends_in(target.value, tail) or _attributes_of(target.value, tail)
            ):
                return 5
            if _ends_in(target, tail) and not _is_empty(statement.value):
                again = any(_ends_in(node, tail) for node in ast.walk(statement.value))
                return 4 if again else 2
    return 0


def as_written(holder: Holder, line: Site | None) -> str:
    """A holder's name as the line that keeps has it: ``history.losses``, where the search knows a ``self.losses``, and
    ``outputs[epoch]``, where it knows some of the ``outputs``.
    """
    if line is not None and holder.name.endswith("[...]"):
        found = [
            ast.unparse(node.slice)
            for node in ast.walk(parsed(line.file))
            if isinstance(node, ast.Subscript) and node.lineno == line.line and _ends_in(node.value, holder.tail)
        ]
        return f"{holder.name.removesuffix('[...]')}[{found[0]}]" if found else holder.name
    if line is None or holder.scope != "attribute" or not holder.name.startswith("self.") or holder.hook:
        return holder.name
    statement = statement_at(line)
    for node in ast.walk(statement) if statement is not None else ():
        if _ends_in(node, holder.tail) and isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            plain = all(isinstance(part, (ast.Attribute, ast.Name, ast.expr_context)) for part in ast.walk(node))
            return text if plain and not text.startswith("self.") else holder.name
    return holder.name


def _ends_in(node: ast.AST, tail: tuple[str, str]) -> bool:
    kind, name = tail
    if kind == "name":
        return isinstance(node, ast.Name) and node.id == name
    if kind == "attribute":
        return isinstance(node, ast.Attribute) and node.attr == name
    return isinstance(node, ast.Subscript) and _is_text(node.slice, name)


def _inside(node: ast.AST, tail: tuple[str, str]) -> bool:
    """``cache[key].append(...)``, ``cache.setdefault(key, []).append(...)``: an item of the container is added to."""
    while isinstance(node, (ast.Subscript, ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
        if _ends_in(node, tail):
            return True
    return False


def _attributes_of(node: ast.AST, tail: tuple[str, str]) -> bool:
    """``vars(run)`` and ``run.__dict__``."""
    if isinstance(node, ast.Call) and called_name(node) == "vars" and node.args:
        return _ends_in(node.args[0], tail)
    return isinstance(node, ast.Attribute) and node.attr == "__dict__" and _ends_in(node.value, tail)


def _is_text(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _is_number(node: ast.AST) -> bool:
    """A plain number is stored: ``loss.item()``, ``float(loss)``, ``len(x)``, ``1``."""
    if isinstance(node, ast.Call):
        return called_name(node) in ("item", "tolist", "float", "int", "len", "str", "size", "numel")
    return isinstance(node, ast.Constant)


def _is_empty(node: ast.AST) -> bool:
    """What a variable is given before anything is kept: 0, None, [], {}, ``list()``."""
    if isinstance(node, (ast.Constant, ast.List, ast.Dict, ast.Set)):
        return not getattr(node, "elts", getattr(node, "keys", []))
    return called_name(node) in _MAKES_EMPTY

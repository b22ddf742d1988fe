"""What to write instead, and which misunderstanding of the course is behind a leak (``advice``, ``behind``)."""

from __future__ import annotations

import ast
import linecache
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from course_utils.base.files import prose, read_toml
from course_utils.catalogue import find
from course_utils.holders.holder import CACHE_OF
from course_utils.source import called_name, parsed, parts_of

if TYPE_CHECKING:
    from course_utils.leaks.findings import Finding

_LETS_GO = ", which lets the graph go (the tensor itself stays as long as its holder)"
_WORDS = Path(__file__).with_name("words.toml")
_LESSONS = Path(__file__).resolve().parents[1] / "lessons"
_LOGS, _ADDS = ("print", "float", "int", "len", "str", "info", "add_scalar"), ("append", "extend", "insert", "clear")


def says(part: str, key: str, **filled: object) -> str:
    """A text of ``words.toml``, filled in."""
    return prose(read_toml(_WORDS)[part][key]).format(**filled)


class Behind(NamedTuple):
    """A misunderstanding of the course, as a learner would say it, and where the course explains it."""

    name: str
    notebook: str  # the lesson's file, ``03_detach.ipynb``
    heading: str  # the heading in it
    key: str  # its home in the course, ``detach/mean_loss/graphs``


def _misconception(found: Finding) -> str:
    """The home of the misunderstanding that a finding points to; "" where the course has none for it."""
    holder, kind = found.holder, found.holder.kind
    if found.error or kind == "nobody":
        return ""
    if kind == "cycle":
        return "clinic/run_clinic/steps" if holder.name.startswith("ctx.") else ""
    if holder.hook or holder.scope == "variable" or _in_a_hook(found):
        return "forward_hooks/capture/graph" if found.has_graph else ""
    if not found.has_graph:
        return "" if kind == "variable" else "clinic/run_clinic/evaluation"
    if kind == "variable":
        return "detach/mean_loss/graphs" if found.scalar else "detach/truncated_bptt/never cut"
    if found.scalar:
        return "clinic/run_clinic/log"
    return "volatile_history/predicted_growth/last only" if found.training else "no_grad/evaluate/recorded"


def _in_a_hook(found: Finding) -> bool:
    """Whether the line that keeps stands in a function that its file registers as a hook."""
    name = re.escape(found.line.function.rpartition(".")[2]) if found.line is not None else "<module>"
    return bool(found.line and re.search(rf"_hook\([^)]*\b{name}\b", "".join(linecache.getlines(found.line.file))))


def behind(found: Finding) -> Behind | None:
    """The misunderstanding behind a finding, as the course has it; None where it has none."""
    key = _misconception(found)
    if not key:
        return None
    lesson, exercise, name = key.split("/", 2)
    # Not by course_utils.checks: what judges is loaded anew for a student's code, and nothing else may hold on to it.
    known = read_toml(_LESSONS / lesson / f"{exercise}.toml")["misconceptions"][name]
    explained = known["explained"]
    lesson, heading = (lesson, explained) if isinstance(explained, str) else explained
    return Behind(known["name"], f"{find(lesson).notebook}.ipynb", heading, key)


def advice(found: Finding) -> str:
    """What to write instead, in one or two sentences."""
    holder = found.holder
    if holder.kind in ("nobody", "building"):
        return says("advice", holder.kind)
    if holder.kind == "cycle":
        return says("advice", "ctx" if holder.name.startswith("ctx.") else "cycle")
    if found.error:
        return says("advice", "error")
    if holder.tail[0] == "call":
        return says("advice", "hook")
    if holder.kind == "container" and any(text.startswith("`") for text in found.inside):
        return says("advice", "object")
    if not found.has_graph or _is_a_librarys(found) or holder.name.startswith(CACHE_OF):
        return _keep_less(found)
    if found.needed_later and holder.kind == "container":
        clear = f"del {holder.name}[:]" if holder.container == "list" else f"{holder.name}.clear()"
        return says("advice", "later", clear=clear)
    better = _rewritten(found) if found.direct else ""
    instead = f"Write `{better}`" if better else _cut(found)
    if better and not found.scalar and found.rate.nbytes:
        instead += _LETS_GO
    return f"{instead}." if found.training else f"{instead}, or run the loop under `torch.no_grad()`."


def _is_a_librarys(found: Finding) -> bool:
    """Whether a library's object keeps it by a line of its own, and not the user by one that adds to what it has."""
    name = re.escape(found.holder.tail[1])
    adds = re.compile(rf"\b{name}\b['\"\])]*(\.\w+\(|\[.*\]\s*=|\s*[-+*/|&@]?=[^=])")
    return bool(found.holder.library) and (found.line is None or not adds.search(found.line.source))


def _keep_less(found: Finding) -> str:
    holder = found.holder
    if holder.name.startswith(CACHE_OF):
        return says("advice", "cache")
    if _is_a_librarys(found):
        kind = "lets_go" if holder.lets_go else "library"
        return says("advice", kind, lets_go=holder.lets_go, library=holder.library)
    if holder.kind == "container":
        return says("advice", holder.container if holder.container in ("list", "deque", "Queue") else "container")
    return says("advice", "takes_in" if found.takes_in else "variable", name=holder.name)


def _cut(found: Finding) -> str:
    """Where to cut the history, in words."""
    places = found.with_graph or found.inside
    inside = " and ".join(text if text.startswith("`") else f"`{text}` of each" for text in places)
    if found.holder.kind != "variable":
        return f"Keep `.detach()` of {inside or 'each'}{_LETS_GO}"
    name = re.sub(r"\[\d+\]$", "", found.holder.name)
    better = f"{name}.detach()" if name == found.holder.name else f"tuple(part.detach() for part in {name})"
    return f"Cut the history between calls: `{name} = {better}`"


def _rewritten(found: Finding) -> str:
    """The line that keeps, with the stored value cut off from its graph; "" where it is not one plain value."""
    source, target = found.line.source if found.line is not None else "", ""
    try:
        (statement,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ""
    value: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        value = statement.value
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        value = statement.value.args[-1]
    elif isinstance(statement, ast.Assign):
        target = ast.unparse(statement.targets[0])
        if isinstance(statement.value, ast.BinOp) or isinstance(statement.targets[0], ast.Subscript):
            value = statement.value
    if isinstance(value, (ast.List, ast.Tuple)):  # losses += [loss]
        value = value.elts[0] if len(value.elts) == 1 else None
    operands = [one for one in _operands(value) if ast.unparse(one) != target]
    cut = "item" if found.scalar and _is_only_logged(found) else "detach"
    if len(operands) != 1 and isinstance(value, ast.BinOp):
        return source.replace(ast.get_source_segment(source, value) or source, f"({ast.unparse(value)}).{cut}()")
    if len(operands) != 1 or operands[0].end_col_offset is None:
        return ""
    end = len(source.encode()[: operands[0].end_col_offset].decode())
    return f"{source[:end]}.{cut}(){source[end:]}"


def _operands(value: ast.expr | None) -> list[ast.expr]:
    """What an expression adds up, multiplies or divides, without plain numbers."""
    if isinstance(value, ast.BinOp):
        return _operands(value.left) + _operands(value.right)
    return [value] if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else []


def _is_only_logged(found: Finding) -> bool:
    """Whether a number will do: in the file of the line that keeps, what is kept is added to and logged, and read
    nowhere else. In doubt a tensor is needed.
    """
    kind, last = found.holder.tail
    name = found.holder.before_tail[1] if kind == "key" else last
    nodes = list(ast.walk(parsed(found.line.file if found.line is not None else "")))
    logged = {id(_base(place)) for node in nodes for place in _logs(node, name)}
    return len(nodes) > 1 and all(id(node) in logged for node in nodes if _is_named(node, name))


def _logs(node: ast.AST, name: str) -> list[ast.expr]:
    """What a node binds or adds to, or logs; of what it binds anew to a name, what it is computed from, too."""
    if isinstance(node, ast.Attribute):
        return [node.value] if node.attr in _ADDS else []
    if isinstance(node, ast.FormattedValue):
        return _operands(node.value)
    if isinstance(node, ast.Call):
        return [one for word in node.args for one in _operands(word)] if called_name(node) in _LOGS else []
    bound = getattr(node, "targets", [getattr(node, "target", None)])
    targets = [part for target in bound for part in parts_of(target)]
    is_the_same = any(_is_named(_base(target), name) for target in targets)
    return [*targets, *_operands(getattr(node, "value", None))] if is_the_same else []


def _base(node: ast.AST) -> ast.AST:
    """``total`` of ``total[-1]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _is_named(node: ast.AST, name: str) -> bool:
    """Whether a node is a name: ``total``, ``self.total``, or the text in ``register_buffer("total", ...)``."""
    return name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "value", None))

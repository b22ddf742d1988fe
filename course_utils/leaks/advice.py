"""What to write instead, and which misunderstanding of the course is behind a leak (``advice``, ``behind``)."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.catalogue import find
from course_utils.holders.holder import CACHE_OF
from course_utils.holders.lines import parsed
from course_utils.leaks.uses import is_only_logged

if TYPE_CHECKING:
    from course_utils.leaks.findings import Finding

_LESSONS = Path(__file__).resolve().parents[1] / "lessons"


@dataclass(frozen=True)
class Behind:
    """A misunderstanding of the course, and where the course explains it.

    Attributes:
        name: as a learner would say it.
        notebook: the lesson's file, ``03_detach.ipynb``.
        heading: the heading in it.
        key: its home in the course, ``detach/mean_loss/graphs``.
    """

    name: str
    notebook: str
    heading: str
    key: str


def misconception_key(found: Finding) -> str:
    """The home of the misunderstanding that a finding points to; "" where the course has none for it."""
    holder, graph = found.holder, found.graph_bytes > 0 or found.history
    if holder.kind == "nobody" or found.error:
        return ""
    if holder.kind == "cycle" and not holder.name.startswith("ctx."):
        return ""
    if holder.kind == "cycle":
        return "clinic/run_clinic/steps"
    if holder.hook or holder.scope == "variable" or _in_a_hook(found):
        return "forward_hooks/capture/graph" if graph else ""
    if graph and holder.kind == "variable":
        return "detach/mean_loss/graphs" if found.scalar else "detach/truncated_bptt/never cut"
    if graph and found.scalar:
        return "clinic/run_clinic/log"
    if graph:
        return "no_grad/evaluate/recorded" if not found.training else "volatile_history/predicted_growth/last only"
    return "clinic/run_clinic/evaluation" if holder.kind in ("container", "building") else ""


def _in_a_hook(found: Finding) -> bool:
    """Whether the line that keeps stands in a function with the arguments of a forward hook."""
    function = _function_at(found)
    if function is None:
        return False
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    if len(names) != 3 or names[0] not in ("module", "m", "mod", "layer", "_module", "_", "net", "self_"):
        return False
    return names[2].lstrip("_").startswith(("o", "res", "y")) or names[2] == "_"


def _function_at(found: Finding) -> ast.FunctionDef | None:
    tree = parsed(found.line.file) if found.line is not None else None
    if tree is None or found.line is None:
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= found.line.line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def behind(found: Finding) -> Behind | None:
    """The misunderstanding behind a finding, as the course has it; None where it has none."""
    key = misconception_key(found)
    if not key:
        return None
    lesson, exercise, name = key.split("/", 2)
    # Not by course_utils.checks: what judges is loaded anew for a student's code, and nothing else may hold on to it.
    text = (_LESSONS / lesson / f"{exercise}.toml").read_text(encoding="utf-8")
    known = tomllib.loads(text)["misconceptions"][name]
    explained = known["explained"]
    lesson, heading = (lesson, explained) if isinstance(explained, str) else explained
    return Behind(known["name"], f"{find(lesson).notebook}.ipynb", heading, key)


def advice(found: Finding) -> str:
    """What to write instead, in one or two sentences."""
    holder, graph = found.holder, found.graph_bytes > 0 or found.history
    if holder.kind == "nobody":
        return (
            "Look at what the lines below hand to: a library, a C extension, another thread. Or at a circle through"
            " C++, which Python's collector does not see: a hook on a node (`grad_fn.register_hook`) that leads back to"
            " what has the graph, or `backward(create_graph=True)`, after which `.grad` leads to the graph and the"
            " graph to the parameter; use `torch.autograd.grad`, or set `.grad` to None when you are done."
        )
    if holder.kind == "building":
        return "Work through the outputs one by one, and keep a number of each."
    if holder.kind == "cycle" and holder.name.startswith("ctx."):
        return (
            "Hand outputs and inputs to `ctx.save_for_backward`; an attribute of `ctx` that is the function's own"
            " output closes a circle."
        )
    if holder.kind == "cycle":
        return (
            "Let one of the objects refer to the other by `weakref.ref`, or set the attribute to None when you are"
            " done."
        )
    if found.error:
        return (
            "An exception keeps the variables of every function that it came through. Keep its text, `str(error)`, or"
            " clear it with `traceback.clear_frames(error.__traceback__)`."
        )
    if holder.tail[0] == "call":
        return "Each call registers one hook more. Register it once, before the loop, or end it with `handle.remove()`."
    if holder.kind == "container" and any(text.startswith("`") for text in found.inside):
        return (
            "Each call adds one more, with all that it refers to. Add it once, before the loop, or take it out again."
        )
    if not graph or _is_a_librarys(found) or holder.name.startswith(CACHE_OF):
        return _keep_less(found)
    if found.needed_later and holder.kind == "container":
        clear = f"del {holder.name}[:]" if holder.container == "list" else f"{holder.name}.clear()"
        return (
            "A backward pass some calls later needs them with their graph, so they may not be cut off here. Let go of"
            f" them after it: `{clear}`."
        )
    if not found.graph_bytes and not found.scalar and not found.nodes:
        return f"{_keep_less(found)} `.detach()` lets what is left of the graph go too."
    cut = "item" if found.scalar and is_only_logged(found.holder, found.line) else "detach"
    better = _rewritten(found, cut) if found.direct else ""
    instead = f"Write `{better}`" if better else _cut(found, cut)
    if better and not found.scalar and found.rate.nbytes:
        instead += ", which lets the graph go (the tensor itself stays as long as its holder)"
    if not found.training:
        return f"{instead}, or run the loop under `torch.no_grad()`."
    return f"{instead}."


def _is_a_librarys(found: Finding) -> bool:
    """Whether a library's object keeps it by a line of its own, and not the user by one that adds to what it has."""
    name = re.escape(found.holder.tail[1])
    adds = re.compile(rf"\b{name}\b['\"\])]*(\.\w+\(|\[.*\]\s*=|\s*[-+*/|&@]?=[^=])")
    return bool(found.holder.library) and (found.line is None or not adds.search(found.line.source))


def _keep_less(found: Finding) -> str:
    holder = found.holder
    if holder.name.startswith(CACHE_OF):
        return (
            "Give the cache a `maxsize`, or take it away. It never finds a tensor again but the very same one: an equal"
            " tensor is another key."
        )
    if _is_a_librarys(found) and holder.lets_go:
        return f"It is a library's: call `{holder.lets_go}` where a round of it ends, once you have read its result."
    if _is_a_librarys(found):
        return f"`{holder.library}` is a library's: look in its documentation for what bounds it, or makes it let go."
    if holder.kind == "container":
        bounded = {"list": ": `collections.deque(maxlen=...)` in place of the list", "Queue": ": `Queue(maxsize=...)`"}
        return f"Keep what you need of each, such as a number, or let old ones go{bounded.get(holder.container, '')}."
    if found.takes_in:
        return f"It takes in more with every call. Keep the newest rows alone: `{holder.name} = {holder.name}[-size:]`."
    return "Keep what you need of it, or let the old one go."


def _cut(found: Finding, cut: str) -> str:
    holder = found.holder
    inside = " and ".join(
        text if text.startswith("`") else f"`{text}` of each" for text in found.with_graph or found.inside
    )
    if cut == "item":
        return f"Keep the number of {inside}: `.item()`" if inside else "Keep the number: `.item()`"
    several = re.fullmatch(r"(.*)\[\d+\]", holder.name)
    if holder.kind == "variable" and several:
        return f"Cut the history between calls: `{several[1]} = tuple(part.detach() for part in {several[1]})`"
    if holder.kind == "variable":
        return f"Cut the history between calls: `{holder.name} = {holder.name}.detach()`"
    return f"Keep `.detach()` of {inside or 'each'}, which lets the graph go (the tensor itself stays as long as its holder)"


def _rewritten(found: Finding, cut: str) -> str:
    """The line that keeps, with the stored value cut off from its graph; "" where it is not one plain value."""
    source = found.line.source if found.line is not None else ""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    (statement,) = tree.body if len(tree.body) == 1 else (None,)
    value: ast.expr | None = None
    target = ""
    if isinstance(statement, ast.AugAssign):
        value = statement.value
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        value = statement.value.args[-1]
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        value, target = statement.value, ast.unparse(statement.targets[0])
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        value = statement.value
    if isinstance(value, (ast.List, ast.Tuple)):  # losses += [loss]
        value = value.elts[0] if len(value.elts) == 1 else None
    operands = [one for one in _operands(value) if ast.unparse(one) != target]
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

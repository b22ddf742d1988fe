"""The user's source, statement by statement (``statements``): which one binds a name (``bindings``), which one runs an
operation (``runs``), and what was switched on around it.
"""

import ast
import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from course_utils.base.user_code import Site
from course_utils.graph.report import operation_name
from course_utils.holders.lines import parsed, parts_of, users_files

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.Mod: "remainder", ast.FloorDiv: "floordivide", ast.USub: "neg",
}  # fmt: skip

_MATMULS = ("mm", "bmm", "mv", "dot", "unsafeview", "squeeze", "expand")
# What autograd calls the operations that a call runs, where it is not the call's own name.
_RUNS = {
    "matmul": _MATMULS, "einsum": (*_MATMULS, "sum", "permute", "mul"), "linear": ("addmm", "t", *_MATMULS, "linear"),
    "conv": ("convolution", "squeeze"), "batchnorm": ("nativebatchnorm", "cudnnbatchnorm"),
    "layernorm": ("nativelayernorm", "fusedlayernorm"), "groupnorm": ("nativegroupnorm",),
    "crossentropy": ("nllloss", "logsoftmax", "nllloss2d"), "dropout": ("nativedropout", "mul"), "square": ("pow",),
    "reshape": ("view", "unsafeview", "reshapealias", "clone"), "flatten": ("view", "unsafeview", "reshapealias"),
    "norm": ("linalgvectornorm", "norm"), "float": ("tocopy",), "half": ("tocopy",), "double": ("tocopy",),
    "type": ("tocopy",), "to": ("tocopy",), "cuda": ("tocopy",), "subscript": ("select", "slice", "index"),
    "contiguous": ("clone",), "binarycrossentropywithlogits": ("binarycrossentropywithlogits", "mean"),
    "relu": ("relu",), "maxpool": ("maxpool2dwithindices", "maxpool3dwithindices"), "chunk": ("split",),
    "split": ("split", "splitwithsizes"), "unbind": ("unbind",), "lstm": ("lstm",),
    "multiheadattention": ("addmm", "bmm"),
    "setitem": ("copyslices", "indexput", "fill", "maskedfill"), "leakyrelu": ("leakyrelu",),
}  # fmt: skip


_VIEWS = {
    "view", "reshape", "transpose", "permute", "unbind", "chunk", "split", "squeeze", "unsqueeze", "select", "detach",
}  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """One statement of the user's.

    Attributes:
        site: where it begins.
        node: its syntax. Of one with a block, only what stands in its head counts.
        loops: the loops around it in the same function, outermost first.
        within: the texts of the ``with`` blocks around it and of its function's decorators.
    """

    site: Site
    node: ast.stmt
    loops: tuple[ast.stmt, ...] = ()
    within: tuple[str, ...] = ()

    @property
    def switched_off(self) -> bool:
        """Whether nothing is recorded there."""
        return any(is_switch(text) for text in self.within)

    @property
    def inside(self) -> tuple[ast.AST, ...]:
        """Its syntax without the statements of its block."""
        return tuple(_inside(self.node))


def is_switch(text: str) -> bool:
    """Whether a ``with`` or a decorator switches recording off."""
    return any(word in text for word in ("no_grad", "inference_mode", "set_grad_enabled(False)"))


@functools.lru_cache(maxsize=64)
def _of_tree(tree: ast.Module, file: str) -> tuple[Statement, ...]:
    return tuple(_statements(tree, file, "<module>", (), (), False))


def statements(file: str) -> tuple[Statement, ...]:
    """The statements of a file, from top to bottom; none where it is not there or not Python."""
    tree = parsed(file)
    return _of_tree(tree, file) if tree is not None else ()


def statement_at(site: Site) -> Statement | None:
    """The innermost statement at a line."""
    found = [one for one in statements(site.file) if one.node.lineno <= site.line <= (one.node.end_lineno or 0)]
    return max(found, key=lambda one: one.node.lineno, default=None)


def _statements(
    parent: ast.AST, file: str, function: str, loops: tuple[ast.stmt, ...], within: tuple[str, ...], inner: bool
) -> Iterator[Statement]:
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            outer = "" if function == "<module>" else f"{function}.<locals>." if inner else f"{function}."
            marks = tuple(ast.unparse(one) for one in child.decorator_list)
            is_class = isinstance(child, ast.ClassDef)
            yield from _statements(child, file, f"{outer}{child.name}", (), within if is_class else marks, not is_class)
        elif isinstance(child, ast.stmt):
            yield Statement(Site(file, child.lineno, function), child, loops, within)
            further, around = loops, within
            if isinstance(child, (ast.For, ast.While, ast.AsyncFor)):
                further = (*loops, child)
            if isinstance(child, (ast.With, ast.AsyncWith)):
                around = (*within, *(ast.unparse(item.context_expr) for item in child.items))
            yield from _statements(child, file, function, further, around, inner)
        elif isinstance(child, (ast.excepthandler, ast.match_case)):
            yield from _statements(child, file, function, loops, within, inner)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _inside(child)


def called(node: ast.AST) -> str:
    """What a call calls: the last part of its name."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def receiver(node: ast.AST) -> ast.expr | None:
    """The object whose method a call calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.value if isinstance(function, ast.Attribute) else None


def is_backward(node: ast.AST) -> bool:
    """Whether an expression calls backward, or ``torch.autograd.grad``."""
    if called(node) == "grad":
        owner = receiver(node)
        return owner is None or ast.unparse(owner).endswith("autograd")
    return called(node) in ("backward", "manual_backward")


def name_in(node: ast.AST | None) -> str:
    """The variable or attribute that an expression is a part or a view of: ``self.h`` of ``self.h[0].view(-1)``."""
    while isinstance(node, (ast.Subscript, ast.Call, ast.Starred)):
        node = receiver(node) if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute) and node.attr in ("data", "T", "mT", "grad"):
        return name_in(node.value) if node.attr != "grad" else ast.unparse(node)
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def names_read(node: ast.AST) -> list[str]:
    """The variables and attributes that an expression reads, each as far as it is written out: ``self.h``."""
    found: list[str] = []
    waiting = [node]
    while waiting:
        at = waiting.pop(0)
        if isinstance(at, ast.Call):
            owner = receiver(at)
            waiting = [
                *([owner] if owner is not None else []),
                *at.args,
                *(word.value for word in at.keywords),
                *waiting,
            ]
        elif isinstance(at, (ast.Name, ast.Attribute)) and name_in(at):
            found.append(name_in(at))
        elif not isinstance(at, ast.Lambda):
            waiting = [*ast.iter_child_nodes(at), *waiting]
    return list(dict.fromkeys(found))


def targets(statement: Statement) -> list[str]:
    """The names that a statement binds."""
    node = statement.node
    wholes: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        wholes = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        wholes = [node.target]
    walrus = [inner.target for inner in statement.inside if isinstance(inner, ast.NamedExpr)]
    parts = [part for whole in (*wholes, *walrus) for part in parts_of(whole)]
    return [ast.unparse(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute))]


def value_of(statement: Statement) -> ast.expr | None:
    """What a statement binds a name to, returns, or works out."""
    node = statement.node
    if isinstance(node, ast.For):
        return node.iter
    return getattr(node, "value", None)


def is_view(expression: ast.AST | None) -> bool:
    """Whether an expression's value shares the memory of what it is worked out from."""
    if isinstance(expression, ast.Call):
        return called(expression) in _VIEWS and receiver(expression) is not None
    if isinstance(expression, ast.Subscript):
        return not isinstance(expression.slice, ast.Compare)
    return isinstance(expression, ast.Attribute) and expression.attr in ("T", "mT", "data")


def is_cell(file: str) -> bool:
    """Whether a file is a notebook's cell: the user sees the others as one text with it."""
    return file.startswith("<ipython-input") or not os.path.exists(file)


def bindings(name: str, site: Site) -> list[Statement]:
    """The statements that bind a name in the function of a line, the latest before it first; in a loop around it, those
    below come after them.
    """
    same = [one for one in statements(site.file) if name in targets(one) and one.site.function == site.function]
    same = [one for one in same if one.site.line != site.line or one.loops]
    if not same and site.function != "<module>" and "." not in name:
        return bindings(name, Site(site.file, 10**9, "<module>"))
    if not same and is_cell(site.file):
        others = (file for file in users_files() if is_cell(file) and file != site.file)
        same = next(
            (found for file in others if (found := [one for one in statements(file) if name in targets(one)])), []
        )
        return same[::-1]
    if not same and "." in name:
        same = [one for one in statements(site.file) if name in targets(one)]
    before = [one for one in same if one.site.line < site.line]
    return [*reversed(before), *(one for one in reversed(same) if one not in before)]


def op_of(node_name: str) -> str:
    """An operation in small letters: ``addmm`` for ``AddmmBackward0``."""
    return operation_name(node_name).lower().replace("_", "")


def words(expression: ast.AST) -> tuple[str, ...]:
    """What autograd may call the operation that makes an expression's value."""
    if isinstance(expression, (ast.BinOp, ast.UnaryOp)):
        word = _OPERATORS.get(type(expression.op), "")
    elif isinstance(expression, ast.Subscript):
        word = "subscript"
    elif isinstance(expression, ast.Call):
        word = called(expression).lower().replace("_", "")
    elif isinstance(expression, ast.Attribute):
        word = {"T": "t", "mT": "transpose"}.get(expression.attr, "")
    else:
        return ()
    return _words(word)


def _words(word: str) -> tuple[str, ...]:
    first = next((also for key, also in _RUNS.items() if word == key or (len(key) > 3 and word.startswith(key))), ())
    return (*first, word) if word else ()


def words_of_class(name: str) -> tuple[str, ...]:
    """What autograd may call the operation of a layer, by the name of its class."""
    return _words(name.lower().rstrip("123d"))


def is_op(op: str, expression: ast.AST, layers: dict[str, str] | None = None) -> bool:
    """Whether an expression's value may be made by an operation, as ``op_of`` names it.

    Args:
        layers: the classes of the user's layers by the names of the attributes that hold them.
    """
    known = words(expression)
    if layers and isinstance(expression, ast.Call) and called(expression) in layers:
        known = words_of_class(layers[called(expression)])
    return any(op == word or (len(word) > 3 and op.startswith(word)) for word in known)


def runs(op: str, files: Iterable[str], layers: dict[str, str] | None = None) -> list[Statement]:
    """The statements in which an operation may run."""
    every = (one for file in files for one in statements(file))
    return [one for one in every if any(is_op(op, node, layers) for node in one.inside)]

"""The cell magic ``%%memory``: what a notebook cell did to memory (``run_cell``). ``leaks.magics`` registers it."""

import ast
import shlex
from typing import Any

import torch

from course_utils.base import explain
from course_utils.base.text import aligned, describe, format_bytes
from course_utils.graph.recorded import storages_of
from course_utils.memory.known import held_by_graphs
from course_utils.memory.tracker import MemoryTracker


def run_cell(ipython: Any, line: str, cell: str) -> Any:
    """Runs a cell under a tracker and prints what it did; returns the value of its last expression. An unknown option,
    or a name that the notebook does not have, is a ValueError.
    """
    known, device = _parse(line, ipython.user_ns)
    body, last = _compile(ipython, cell)
    mem = MemoryTracker(*known, device=device)
    del known
    value = None
    try:
        with mem:
            exec(body, ipython.user_ns)
            if last is not None:
                value = eval(last, ipython.user_ns)
    finally:
        silent = ipython.displayhook.semicolon_at_end_of_expression(cell)
        print(summary(mem, value, "" if silent else f"Out[{ipython.displayhook.prompt_count}]"))
    return value


def summary(mem: MemoryTracker, value: object, out: str) -> str:
    """The lines under a cell, whose last value IPython keeps in ``out``: ``Out[3]``, or "" where it keeps nothing."""
    report = mem.report()
    peak = format_bytes(report.peak) + (f" after {report.peak_op}" if report.peak_op else "")
    rows = [
        ("peak", peak),
        ("still alive", format_bytes(report.requested)),
        ("  held by graphs", format_bytes(report.categories.get("saved for backward", 0))),
    ]
    if report.scratch is not None:
        rows.insert(1, ("kernel scratch", format_bytes(report.scratch)))
    kept = _kept_by(value)
    if out and kept:
        rows.append(
            (f"  kept by {out}", f"{format_bytes(kept)}, as long as {out} or _ does; end the cell with ; to let go")
        )
    return f"Memory of this cell on {report.device}\n" + aligned(rows)


def _kept_by(value: object) -> int:
    """Bytes that a value keeps alive: of its tensors, and of the graphs behind them."""
    items = value if isinstance(value, (list, tuple)) else (value,)
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    storages = {
        storage._cdata: storage.nbytes()
        for tensor in [*tensors, *held_by_graphs(tensors)]
        for storage in storages_of(tensor)
    }
    return sum(storages.values())


def _parse(line: str, names: dict[str, Any]) -> tuple[list[Any], str | None]:
    words = shlex.split(line)
    known, device = [], None
    while words:
        word = words.pop(0)
        if word == "--device" and words:
            device = words.pop(0)
        elif word in names:
            known.append(names[word])
        else:
            raise ValueError(
                explain(
                    f"%%memory was given {describe(word)}.",
                    "--device DEVICE, or names of this notebook's models, optimizers and tensors.",
                    try_this="%%memory model optimizer",
                )
            )
    return known, device


def _compile(ipython: Any, cell: str) -> tuple[Any, Any]:
    """The cell in two parts, as IPython's own ``%%time`` does it: its statements, and its last expression if any."""
    source = ipython.transform_cell(cell)
    tree = ipython.transform_ast(ipython.compile.ast_parse(source))
    name = ipython.compile.cache(source, ipython.execution_count)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval")
    return compile(tree, name, "exec"), last

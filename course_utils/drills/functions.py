"""Drills on what a graph holds: operations of PyTorch's own, and Functions that somebody wrote (``write``).

All names but the last one are deleted; whose bytes are still held then?
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.edits import KEEPS
from course_utils.drills.programs import CAUSE, MAKER, TRAP, Draw, Page, Program
from course_utils.drills.run import execute, space
from course_utils.memory.collector import collector_off

TASK = "In the end all names are deleted but that of the result. Whose bytes does the graph still hold?"
LESSONS = ("custom_function",)
MARKS = {2: r"class ", 3: r"ctx\.kept|needs_input_grad|backward\(\)$"}
_CLASSES = ("Scale", "Swish", "Gate", "Damp", "Soften", "Bend")


class Graph(Page):
    """A program while it is written, with what each operation has to do with its operands."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.size = 2 + draw.below(8)

    def make(self, text: str) -> tuple[str, int]:
        """A tensor, and its line."""
        name = self.name()
        return name, self.write(f"{name} = {text}")

    def says(
        self, name: str, line: int, rule: str, without: str, held: bool, rank: int = CAUSE, worth: float = 1.0
    ) -> None:
        """Why the bytes of a tensor are held, or not."""
        self.effect(line, rule, without, name, rank=rank, answers=(held,), worth=worth)

    def leaf(self, flag: bool) -> str:
        call = self.draw.choice((f"torch.full(({self.size},), 0.{1 + self.draw.below(9)}", f"torch.ones({self.size}"))
        name, line = self.make(call + (", requires_grad=True)" if flag else ")"))
        rule = (
            f"`{name}` is a leaf that requires grad: the graph ends in a node that will fill its `.grad`, and that node holds "
            "the tensor itself"
        )
        if flag:
            self.says(name, line, rule, f"{name} = {call})", True, worth=0.5)
        return name

    def operate(self, source: str, kind: str) -> str:
        """One of PyTorch's own operations on one tensor, by what it keeps."""
        pattern, sign = self.draw.choice(KEEPS[kind])
        text = pattern.format(x=source, k=2 + self.draw.below(8))
        name, line = self.make(text)
        start, keep, drop = f"`{sign}` in line {line} needs", f"{name} = {source} * ({text})", f"{name} = {source} + 1"
        if kind == "input":
            self.says(source, line, f"{start} its input `{source}` in backward", drop, True)
        elif kind == "result":
            rule = f"{start} its result `{name}` in backward, and not its input `{source}`"
            self.says(name, line, rule, drop, True)
            self.says(source, line, rule, keep, False, MAKER)
        else:
            self.nothing(source, line, sign, keep)
        return name

    def nothing(self, source: str, line: int, sign: str, keep: str) -> None:
        self.says(
            source, line, f"`{sign}` in line {line} needs no values of its input in backward", keep, False, MAKER, 0.5
        )

    def combine(self, one: str, other: str) -> str:
        """A sum, or a product: each factor is kept for the gradient of the other, where that is needed."""
        sign = self.draw.choice("**+-")
        name, line = self.make(f"{one} {sign} {other}")
        for factor, partner in ((one, other), (other, one)):
            if sign != "*":
                self.nothing(factor, line, sign, f"{name} = {factor} * ({one} {sign} {other})")
                continue
            swap = {partner: f"{partner}.detach()"} if self.space[partner].requires_grad else {}
            without = f"{name} = {swap.get(one, one)} * {swap.get(other, other)}"
            rule = f"`*` in line {line} needs `{factor}` for the gradient of `{partner}`"
            self.says(factor, line, rule, without, True)
            rule = (
                f"`*` in line {line} would need `{factor}` for the gradient of `{partner}` alone, which requires none"
            )
            without = f"{name} = {f'{one} * {other}'.replace(partner, f'({partner} * 1).requires_grad_()')}"
            self.says(factor, line, rule, without, False, MAKER)
        return name

    def reduce(self, source: str) -> str:
        """The last tensor, whose name is the one that stays."""
        how = self.draw.choice(("sum", "mean"))
        name, line = self.make(f"{source}.{how}()")
        self.nothing(source, line, how, f"{name} = ({source} * {source}).{how}()")
        return name


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Graph(draw)
    if level == 1:
        _operations(page)
    else:
        _function(page, level)
    for name in [name for name, value in page.space.items() if isinstance(value, torch.Tensor)][:-1]:
        held = {True: "still held", False: "free"}
        page.ask(name, "still held?", lambda yes, name=name: f"the bytes of `{name}` are {held[yes]}")
    return page.finish(_read, most=4)


def _operations(page: Graph) -> None:
    """Level 1: a chain of PyTorch's own operations, with a factor that needs no gradient now and then."""
    draw = page.draw
    last = page.leaf(True)
    other = page.leaf(False) if draw.chance(0.5) else ""
    at = 1 + draw.below(2)
    for number in range(4 + draw.below(2) if other else 5):
        if other and number == at:
            last = page.combine(*draw.sample((last, other), 2))
        else:
            last = page.operate(last, draw.weighted({"input": 2, "result": 2, "nothing": 1.5}))
    page.reduce(last)


# Level 2: what a Function saves. Level 3: on what condition, in which way, and what of it outlives backward.


def _function(page: Graph, level: int) -> None:
    draw, name = page.draw, page.draw.choice(_CLASSES)
    saved = draw.choice((("value",), ("factor",), ("value", "factor"), ())[: 6 - level])
    index = draw.below(2)
    way = draw.weighted({"attribute": 3, "asked": 1.5, "saved": 1}) if level == 3 else "saved"
    keep = _write_class(page, name, saved, way, index)
    start = page.leaf(True)
    flags = draw.choice(((True, False), (False, True), (True, True)))
    value, factor = [page.operate(start, "nothing") if flag else page.leaf(False) for flag in flags]
    result, _ = page.make(f"{name}.apply({value}, {factor})")
    kept = page.lines[keep - 1].strip()
    all_ = "ctx.kept = value, factor" if way == "attribute" else "ctx.save_for_backward(value, factor)"
    for role, tensor in (("value", value), ("factor", factor)):
        if role not in saved:
            rule = f"`{name}` saves nothing of `{tensor}`. What it has computed with it does not matter"
            page.says(tensor, keep, rule, all_, False, TRAP)
        elif way == "asked":
            if_not = kept.replace("if ", "if not ")
            page.says(tensor, keep, f"`{name}` saves `{tensor}`, since its input {index} requires grad", if_not, True)
            rule = f"`{name}` saves `{tensor}` only where its input {index} requires grad, and that does not"
            page.says(tensor, keep, rule, if_not, False, TRAP)
        elif way == "attribute":
            rule = "An attribute of `ctx` stays as long as the node does, and backward does not free it"
            page.says(tensor, keep, rule, "pass", True)
        else:
            rule = f"`{name}` hands `{tensor}` to `save_for_backward`, whatever its backward will do with it"
            page.says(tensor, keep, rule, "pass", True)
    total = page.reduce(page.operate(result, draw.choice(("input", "result", "nothing"))))
    if level == 3 and (way == "saved" or draw.chance(0.5)):
        line = page.write(f"{total}.backward()")
        for tensor in [name for name, value in page.space.items() if isinstance(value, torch.Tensor)]:
            page.says(tensor, line, f"Backward frees what was saved for it, and `{tensor}` was", "pass", False)


def _write_class(page: Graph, name: str, saved: Sequence[str], way: str, index: int) -> int:
    """A Function of two tensors; returns the line that decides what it saves."""
    draw, k, both = page.draw, 2 + page.draw.below(8), ", ".join(saved)
    keep = f"ctx.save_for_backward({both})" if saved else "ctx.shape = value.shape"
    keep = {"attribute": f"ctx.kept = {both}", "asked": f"if ctx.needs_input_grad[{index}]: {keep}"}.get(way, keep)
    forward = draw.choice(("value * factor", f"value + {k} * factor", f"{k} * value - factor"))
    backward = draw.choice(("grad, grad", "grad, -grad", f"grad, {k} * grad", f"{k} * grad, grad"))
    lines = [
        f"class {name}(torch.autograd.Function):",
        "    @staticmethod",
        "    def forward(value, factor):",
        f"        return {forward}",
        "    @staticmethod",
        "    def setup_context(ctx, inputs, output):",
        "        value, factor = inputs",
        f"        {keep}",
        "    @staticmethod",
        "    def backward(ctx, grad):",
        f"        return {backward}",
    ]
    return page.write("\n".join(lines)) + 7


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = space()
        with contextlib.suppress(RuntimeError):  # where nothing requires grad there is no backward
            execute(lines, names)
        tensors = [name for name, value in names.items() if isinstance(value, torch.Tensor)]
        held = {name: StorageWeakRef(names[name].untyped_storage()) for name in tensors}
        for name in tensors[:-1]:
            del names[name]
        return {name: not weak.expired() for name, weak in held.items()}

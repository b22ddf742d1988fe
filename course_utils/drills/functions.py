"""Drills on what a graph holds: operations of PyTorch's own, and Functions that somebody wrote (``write``).

All names but the last one are deleted; whose bytes are still held then?
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.page import Asked, Page
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import rules
from course_utils.drills.run import execute
from course_utils.drills.texts import grammar
from course_utils.memory.loops import collector_off

TASK = "In the end all names are deleted but that of the result. Whose bytes does the graph still hold?"
EXPLAINED = {"class ": "What `backward` returns here is made up, and need not be the derivative."}
LESSONS = ("custom_function",)
MARKS = {2: r"class ", 3: r"ctx\.kept|needs_input_grad|backward\(\)$"}
_GRAMMAR = grammar(r"""
k: <<2..9>>
open: torch.<<full((<<size>>,), 0.<<1..9>>|ones(<<size>>>>
flagged: <<new>> = <<open>>, requires_grad=True)
plain: $b = <<open>>)
keeps input: <<last>><<.sin()|.cos()| ** <<k>>|.square()>>
keeps result: <<last>><<.exp()|.sigmoid()|.tanh()|.sqrt()>>
keeps nothing: <<<<last>> + <<k>>|<<k>> * <<last>>|-<<last>>|<<last>> / <<k>>|<<last>> - <<k>>>>
step x2: <<new>> = <<keeps input>>
step x2: <<new>> = <<keeps result>>
step x1.5: <<new>> = <<keeps nothing>>
combine: <<new>> = <<$b * <<last>>|<<last>> * $b|<<last>> <<+|->> $b>>
reduce: <<new>> = <<last>>.<<sum|mean>>()

forward: <<value * factor|value + <<k>> * factor|<<k>> * value - factor>>
gradients: <<grad, grad|grad, -grad|grad, <<k>> * grad|<<k>> * grad, grad>>
saves: <<value|factor|value, factor>>
saved x3: ctx.save_for_backward(<<saves>>)
saved x1: ctx.shape = value.shape
outlives x3: ctx.kept = <<saves>>
outlives x1.5: if ctx.needs_input_grad[<<0|1>>]: ctx.save_for_backward(<<saves>>)
outlives x1: ctx.save_for_backward(<<saves>>)
class:
    class <<function>>(torch.autograd.Function):
        @staticmethod
        def forward(value, factor):
            return <<forward>>
        @staticmethod
        def setup_context(ctx, inputs, output):
            value, factor = inputs
            <<keep>>
        @staticmethod
        def backward(ctx, grad):
            return <<gradients>>
    $a = <<open>>, requires_grad=True)
    <<last:=$a>><<inputs>>
    $r = <<function>>.apply($p, $q)
    <<last:=$r>><<step>>
inputs: $p = <<keeps nothing>>; $q = <<open>>)
inputs: $p = <<open>>); $q = <<keeps nothing>>
inputs: $p = <<keeps nothing>>; $q = <<keeps nothing>>
""")
_CLASSES = ("Scale", "Swish", "Gate", "Damp", "Soften", "Bend")


class Graph(Page):
    """A program while it is drawn."""

    def hole(self, word: str, local: Mapping[str, str]) -> str:
        plain = self.name("b")
        return [name for name in self.tensors() if name != plain][-1] if word == "last" else super().hole(word, local)


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    keep = "<<saved>>" if level == 2 else "<<outlives>>"
    more = {"size": f"{2 + draw.below(8)}", "keep": keep, "function": draw.choice(_CLASSES)}
    page = Graph(draw, _GRAMMAR, more)
    if level > 1:
        page.add("<<class>>")
    else:
        # A chain of PyTorch's own operations, with a factor that needs no gradient now and then.
        page.add("<<flagged>>")
        combined = 1 + draw.below(2) if draw.chance(0.5) else 0
        if combined:
            page.add("<<plain>>")
        for number in range(5):
            page.add("<<combine>>" if number and number == combined else "<<step>>")
    page.add("<<reduce>>")
    *names, total = page.tensors()
    if level == 3 and (draw.chance(0.4) or not re.search(r"ctx\.kept|if ctx", "".join(page.lines))):
        page.add(f"{total}.backward()", run=False)
    held = {True: "are still held", False: "are free"}
    asked = [Asked(name, "still held?", held, subject=f"the bytes of `{name}`") for name in names]
    return page.finish(asked, _RULES, _read, most=4)


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = execute(lines)
        tensors = [name for name, value in names.items() if isinstance(value, torch.Tensor)]
        held = {name: StorageWeakRef(names[name].untyped_storage()) for name in tensors}
        for name in tensors[:-1]:
            del names[name]
        return {name: not weak.expired() for name, weak in held.items()}


_RULES = rules(r"""
[own answer:True worth:0.5] (.*), requires_grad=True\) -> \1)
    `{name}` is a leaf that requires grad: the graph ends in a node that will fill its `.grad`, and that node holds the
    tensor itself
[answer:True] (\w+ = KEY)(?:\.| )(\w+|\*\*)(?:\(\)| \d)$ -> \1 + 1
    `{1}` in line {line} needs its input `{name}` in backward
[answer:True] (KEY = (\w+))\.(\w+)\(\)$ -> \1 + 1
    `{2}` in line {line} needs its result `{name}` in backward, and not its input `{1}`
[answer:True] (\w+) = KEY \* (N\w+)$ -> \1 = KEY * \2.detach()
    `*` in line {line} needs `{name}` for the gradient of `{1}`
[answer:True] (\w+) = (N\w+) \* KEY$ -> \1 = \2.detach() * KEY
    `*` in line {line} needs `{name}` for the gradient of `{1}`
[answer:True] if (ctx\.needs_input_grad\[(\d)\])(?=(?:.*\n)*.* = (\w+)\.apply\(.*KEY) -> if not \1
    `{2}` saves `{name}`, since its input {1} requires grad
[answer:True] ctx\.save_for_backward\(.*\)(?=(?:.*\n)*.* = (\w+)\.apply\(.*KEY)
    `{0}` hands `{name}` to `save_for_backward`, whatever its backward will do with it
[answer:True] ctx\.kept = .*(?=(?:.*\n)*.*\.apply\(.*KEY)
    An attribute of `ctx` stays as long as the node does, and backward does not free it
[answer:False] \w+\.backward\(\)
    Backward frees what was saved for it, and `{name}` was

[trap answer:False] if (ctx\.needs_input_grad\[(\d)\])(?=(?:.*\n)*.* = (\w+)\.apply\(.*KEY) -> if not \1
    `{2}` saves `{name}` only where its input {1} requires grad, and that does not
[trap answer:False] (?:if .*: )?ctx\.(?:save|shape).*(?=(?:.*\n)*.* = (\w+)\.apply\(.*KEY)
    -> ctx.save_for_backward(value, factor)
    `{0}` saves nothing of `{name}`. What it has computed with it does not matter
[trap answer:False] ctx\.kept.*(?=(?:.*\n)*.* = (\w+)\.apply\(.*KEY) -> ctx.kept = value, factor
    `{0}` saves nothing of `{name}`. What it has computed with it does not matter

[maker answer:False] (\w+) = KEY\.(exp|sigmoid|tanh|sqrt)\(\) -> \1 = KEY * KEY
    `{1}` in line {line} needs its result `{0}` in backward, and not its input `{name}`
[maker answer:False] (\w+) = (?=.*KEY)(?:KEY \* )?(N\w+)(?: \* KEY)?$ -> \1 = KEY * (\2 * 1).requires_grad_()
    `*` in line {line} would need `{name}` for the gradient of `{1}` alone, which requires none
[maker answer:False worth:0.5] (\w+) = ((?=.*KEY)(?:\w+ )?([-+*/])(?: ?\w+)?)$ -> \1 = KEY * (\2)
    `{2}` in line {line} needs no values of its input in backward
[maker answer:False worth:0.5] (\w+) = KEY\.(sum|mean)\(\) -> \1 = (KEY * KEY).\2()
    `{1}` in line {line} needs no values of its input in backward
""")

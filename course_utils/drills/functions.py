"""Drills on what a graph holds: operations of PyTorch's own, and Functions that somebody wrote (``write``).

All names but the last one are deleted; whose bytes are still held then?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from course_utils.drills.programs import Draw, Page, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer

# What an operation keeps for backward follows from its derivative.
# https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml
_INPUT = (("{x}.sin()", "sin"), ("{x}.cos()", "cos"), ("{x} ** {k}", "**"), ("{x}.square()", "square"))
_RESULT = (("{x}.exp()", "exp"), ("{x}.sigmoid()", "sigmoid"), ("{x}.tanh()", "tanh"), ("{x}.sqrt()", "sqrt"))
_NOTHING = (("{x} + {k}", "+"), ("{k} * {x}", "*"), ("-{x}", "-"), ("{x} / {k}", "/"), ("{x} - {k}", "-"))
_CLASSES = ("Scale", "Swish", "Gate", "Damp", "Soften", "Bend")


@dataclass(eq=False)
class _Tensor:
    """A tensor of the program: its name, whether autograd records what is made of it, and why it is held or not."""

    name: str
    flag: bool
    line: int
    leaf: bool = False
    held: list[Reason] = field(default_factory=list)
    free: list[Reason] = field(default_factory=list)


class _FunctionPage(Page):
    """A program while it is written, with the reasons for what is held at its end."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.size = 2 + draw.below(8)
        self.tensors: list[_Tensor] = []

    def make(self, text: str, flag: bool, leaf: bool = False) -> _Tensor:
        name = self.name()
        self.tensors.append(_Tensor(name, flag, self.write(f"{name} = {text}"), leaf))
        return self.tensors[-1]

    def leaf(self, flag: bool) -> _Tensor:
        call = self.draw.choice((f"torch.full(({self.size},), 0.{1 + self.draw.below(9)}", f"torch.ones({self.size}"))
        made = self.make(call + (", requires_grad=True)" if flag else ")"), flag, leaf=True)
        if flag:
            made.held.append(Reason(made.line, "leaf is held", {"name": f"`{made.name}`"}))
        return made

    def operate(self, source: _Tensor, kind: str) -> _Tensor:
        """One of PyTorch's own operations on one tensor."""
        pattern, sign = self.draw.choice({"input": _INPUT, "result": _RESULT, "nothing": _NOTHING}[kind])
        made = self.make(pattern.format(x=source.name, k=2 + self.draw.below(8)), source.flag)
        facts = {"op": f"`{sign}`", "line": str(made.line), "source": f"`{source.name}`", "result": f"`{made.name}`"}
        if kind == "input":
            source.held.append(Reason(made.line, "keeps its input", facts))
        elif kind == "result":
            made.held.append(Reason(made.line, "keeps its result", facts))
            source.free.append(Reason(made.line, "keeps its result", facts))
        else:
            source.free.append(Reason(made.line, "keeps nothing", facts))
        return made

    def combine(self, one: _Tensor, other: _Tensor) -> _Tensor:
        """A sum, or a product: each factor is kept for the gradient of the other, where that is needed."""
        sign = self.draw.choice("**+-")
        made = self.make(f"{one.name} {sign} {other.name}", one.flag or other.flag)
        if sign != "*":
            for term in (one, other):
                term.free.append(Reason(made.line, "keeps nothing", {"op": f"`{sign}`", "line": str(made.line)}))
            return made
        for factor, partner in ((one, other), (other, one)):
            facts = {"line": str(made.line), "source": f"`{factor.name}`", "partner": f"`{partner.name}`"}
            if partner.flag:
                factor.held.append(Reason(made.line, "keeps a factor", facts))
            else:
                factor.free.append(Reason(made.line, "needs no factor", facts))
        return made

    def reduce(self, source: _Tensor) -> str:
        """The last tensor, whose name is the one that stays."""
        name, how = self.name(), self.draw.choice(("sum", "mean"))
        line = self.write(f"{name} = {source.name}.{how}()")
        source.free.append(Reason(line, "keeps nothing", {"op": f"`{how}`", "line": str(line)}))
        return name

    def backward(self, total: str, is_attribute: bool) -> None:
        """Backward frees what was saved for it; attributes of ``ctx`` and the leaves stay."""
        line = self.write(f"{total}.backward()")
        for tensor in self.tensors:
            stays = [why for why in tensor.held if why.rule in ("leaf is held", "on ctx")]
            if tensor.held and not stays:
                tensor.free = [Reason(line, "freed by backward", {"source": f"`{tensor.name}`"})]
            elif not stays:
                # What backward would have freed is free for two reasons; an attribute it would have left alone.
                tensor.free = [why for why in tensor.free if why.rule == "not handed over" and is_attribute]
            tensor.held = stays


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = _FunctionPage(draw)
        if level == 1:
            _operations(page)
        else:
            _function(page, level)
        if page.fits and (program := _finish(page)) is not None:
            return program


def _operations(page: _FunctionPage) -> None:
    """Level 1: a chain of PyTorch's own operations, with a factor that needs no gradient now and then."""
    draw = page.draw
    last = page.leaf(True)
    other = page.leaf(False) if draw.chance(0.5) else None
    at = 1 + draw.below(2)
    for number in range(5 if other is None else 4 + draw.below(2)):
        if other is not None and number == at:
            last = page.combine(*draw.sample((last, other), 2))
        else:
            last = page.operate(last, draw.weighted({"input": 2, "result": 2, "nothing": 1.5}))
    page.reduce(last)


# Level 2: what a Function saves. Level 3: on what condition, in which way, and what of it outlives backward.


def _function(page: _FunctionPage, level: int) -> None:
    draw, name = page.draw, page.draw.choice(_CLASSES)
    saved = draw.choice((("value",), ("factor",), ("value", "factor"), ())[: 6 - level])
    index = draw.below(2)
    way = draw.weighted({"attribute": 3, "asked": 1.5, "saved": 1}) if level == 3 else "saved"
    keep = _write_class(page, name, saved, way, index)
    start = page.leaf(True)
    flags = draw.choice(((True, False), (False, True), (True, True)))
    value, factor = [page.operate(start, "nothing") if flag else page.leaf(False) for flag in flags]
    result = page.make(f"{name}.apply({value.name}, {factor.name})", True)
    for role, tensor in (("value", value), ("factor", factor)):
        facts = {"line": str(keep), "function": f"`{name}`", "source": f"`{tensor.name}`", "index": str(index)}
        if role not in saved:
            tensor.free.append(Reason(keep, "not handed over", facts))
        elif way == "asked" and not flags[index]:
            tensor.free.append(Reason(keep, "not asked for", facts))
        else:
            rule = {"attribute": "on ctx", "asked": "asked for", "saved": "handed over"}[way]
            tensor.held.append(Reason(keep, rule, facts))
    total = page.reduce(page.operate(result, draw.choice(("input", "result", "nothing"))))
    if level == 3 and (way == "saved" or draw.chance(0.5)):
        page.backward(total, way == "attribute")


def _write_class(page: _FunctionPage, name: str, saved: Sequence[str], way: str, index: int) -> int:
    """A Function of two tensors; returns the line that decides what it saves."""
    draw, k = page.draw, 2 + page.draw.below(8)
    both = ", ".join(saved)
    with page.block(f"class {name}(torch.autograd.Function):"):
        page.write("@staticmethod")
        with page.block("def forward(value, factor):"):
            page.write(f"return {draw.choice(('value * factor', f'value + {k} * factor', f'{k} * value - factor'))}")
        page.write("@staticmethod")
        with page.block("def setup_context(ctx, inputs, output):"):
            page.write("value, factor = inputs")
            if way == "attribute":
                keep = page.write(f"ctx.kept = {both}")
            else:
                call = f"ctx.save_for_backward({both})" if saved else "ctx.shape = value.shape"
                keep = page.write(f"if ctx.needs_input_grad[{index}]: {call}" if way == "asked" else call)
        page.write("@staticmethod")
        with page.block("def backward(ctx, grad):"):
            page.write(f"return {draw.choice(('grad, grad', 'grad, -grad', f'grad, {k} * grad', f'{k} * grad, grad'))}")
    return keep


def _finish(page: _FunctionPage) -> Program | None:
    asked = []
    for tensor in page.tensors:
        if len(tensor.held) == 1:
            asked.append((tensor, True, tensor.held[0]))
        elif not tensor.held and tensor.free:
            # Of two lines that might have kept it, the later one is named.
            asked.append((tensor, False, tensor.free[-1]))
    # What is the same in every program is asked now and then.
    for rule in ("leaf is held", "keeps nothing", "keeps nothing"):
        common = [item for item in asked if item[2].rule == rule]
        if common and len(asked) > 3 and page.draw.chance(0.7):
            asked.remove(common[-1])
    if len(asked) < 3 or len({held for _, held, _ in asked}) < 2:
        return None
    names, questions = page.names(), []
    for tensor, held, why in asked[:6]:
        then = f"the bytes of `{tensor.name}` are {'still held' if held else 'free'}"
        questions.append(
            Question(named(tensor.name, names), held, why.line, why.rule, named(explain_answer(why, then), names))
        )
    return Program(tuple(named(row, names) for row in page.lines), tuple(questions))

"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move? (``write``)"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from course_utils.drills.programs import CAUSE, MAKER, Answer, Draw, Page, Program
from course_utils.drills.run import execute, space, statements

TASK = "Which branches run, and what does that leave in their gradients?"
LESSONS = ("gated_branches",)
MARKS = {2: r"no_grad|detach|\[True|\[False", 3: r"optim"}
NONE, ZEROS, VALUES = GRADS = ("none", "zeros", "values")
_GRAD_TEXT = {NONE: "is None", ZEROS: "holds zeros alone", VALUES: "holds numbers that are not zero"}
_OPEN = "The loss is computed from the result of {b}"
_CLOSED = "The result of {b} is part of the graph, and its gradient is multiplied by zero on the way back"
_ROWS = "At least one row of the result of {b} is used, and gradients come back through it"
_NO_ROWS = (
    "{b} runs on all rows and none of its results is used. The selection is part of the graph and hands back zeros"
)
_RUN_ON_NONE = "{b} runs on a batch of no rows. It is part of the graph, and a sum over no rows is zero"
_UNUSED = "{b} is run and its result is dropped: the loss is not computed from it, so backward never comes there"


class Gates(Page):
    """A program while it is written: two branches of one kind, their input, and which lines are asked about.

    Attributes:
        input: the input's name.
        names: the branches' names.
        calls: their calls on the input.
        watched: the lines that run the branches and that move them, where not the whole program is asked about.
    """

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.rows, self.width, self.outputs = 2 + draw.below(5), 2 + draw.below(7), 2 + draw.below(7)
        self.watched = (0, 0)
        self.input, *self.names = self.name(), self.name(), self.name()
        self.write(f"{self.input} = torch.ones({self.rows}, {self.width})")
        layer = f"nn.Linear({self.width}, {self.outputs})"
        self.write(f"{', '.join(self.names)} = {layer}, {layer}")
        self.calls = [f"{name}({self.input})" for name in self.names]

    def assign(self, text: str) -> str:
        name = self.name()
        self.write(f"{name} = {text}")
        return name

    def says(self, index: int, what: str, line: int, rule: str, without: str, *answers: Answer, **more: Any) -> None:
        """What a line does to one of the questions about a branch; ``{b}`` in the rule stands for the branch."""
        name = self.names[index]
        key = f"{name}.weight.grad" if what == "grad" else f"{name} {what}"
        self.effect(line, rule.format(b=f"`{name}`"), without, key, answers=answers, **more)

    def runs(self, index: int, line: int) -> None:
        """A line that calls a branch."""
        name, text = self.names[index], self.lines[line - 1].strip()
        # The same result, without a call of the branch.
        without = re.sub(rf"\b{name}\(((?:[^()]|\[[^]]*\])*)\)", rf"(\1 @ {name}.weight.T)", text)
        rule = "This line calls {b}; what is done with its result comes after that"
        self.says(index, "runs", line, rule, without, True, rank=MAKER)

    def skips(self, index: int, line: int, called: str, rank: int = CAUSE) -> None:
        """A line that does not call a branch. ``called``: the line if it did."""
        rule = "This line does not call {b}, so nothing is computed and no gradient comes there"
        self.says(index, "runs", line, rule, called, False)
        self.says(index, "grad", line, rule, called, NONE, rank=rank)

    def reaches(self, index: int, line: int, rules: Mapping[Answer, str], call: str = "") -> None:
        """What comes back to a branch through a line, by what that is."""
        call, text = call or self.calls[index], self.lines[line - 1].strip()
        for answer, rule in rules.items():
            self.says(index, "grad", line, rule, text.replace(call, f"{call}.detach()"), answer, rank=MAKER)

    def backward(self, out: str) -> None:
        self.write(f"{out}.{self.draw.choice(('sum', 'mean'))}().backward()")


# Level 1: one gate for each branch.


def _gates(page: Gates) -> str:
    """A tensor with a gate for each branch, at least one of them open."""
    draw = page.draw
    gates = draw.choice(((True, False), (False, True), (True, False), (False, True), (True, True)))
    return page.assign(
        f"torch.tensor([{', '.join(draw.choice(('1.0', '0.5', '2.0')) if gate else '0.0' for gate in gates)}])"
    )


def _multiplied(page: Gates) -> None:
    gate, (b, c) = _gates(page), page.calls
    pattern = page.draw.choice(
        ("{g}[0] * {b} + {g}[1] * {c}", "torch.cat([{g}[0] * {b}, {g}[1] * {c}])", "{b} * {g}[0] - {c} * {g}[1]")
    )
    out = page.assign(pattern.format(g=gate, b=b, c=c))
    for index in (0, 1):
        page.runs(index, len(page.lines))
        page.reaches(index, len(page.lines), {VALUES: _OPEN, ZEROS: _CLOSED})
    page.backward(out)


def _asked(page: Gates) -> None:
    gate = _gates(page)
    out = page.assign(f"torch.zeros({page.rows}, {page.outputs})")
    for index, call in enumerate(page.calls):
        add = f"{out} = {out} + {call}"
        line = page.write(f"if {gate}[{index}]: {add}")
        page.runs(index, line)
        page.skips(index, line, add)
        page.reaches(index, line, {VALUES: _OPEN})
    page.backward(out)


def _chosen(page: Gates) -> None:
    """One of two results, or the result of one of two branches."""
    draw, index = page.draw, page.draw.below(2)
    (b, c), (f, g), other = page.calls, page.names, 1 - index
    one, two = draw.below(3) + 1, draw.below(3) + 3 * draw.below(2)
    kinds = {
        f"[{b}, {c}][{index}]": f"sum([{b}, {c}])",
        f"torch.stack([{b}, {c}])[{index}]": "",
        f"torch.where(torch.tensor({not index}), {b}, {c})": "",
        f"[{f}, {g}][{index}]({page.input})": f"[{f}, {g}][{other}]({page.input})",
        f"{b} if {one} > {two} else {c}": f"{c} if {one} > {two} else {b}",
    }
    text = draw.choice(list(kinds))
    out, line = page.assign(text), len(page.lines)
    instead = f"{out} = {kinds[text]}"
    for at in (0, 1):
        if text.startswith(f"[{f}, "):
            rule = "This line calls {b}; what is done with its result comes after that"
            page.says(at, "runs", line, rule, instead, True)
            page.says(at, "grad", line, _OPEN, f"{out} = {text}.detach().requires_grad_()", VALUES)
        page.runs(at, line)
        page.reaches(at, line, {VALUES: _OPEN} | ({} if kinds[text] else {ZEROS: _CLOSED}))
        if "sum" in instead:
            page.says(at, "grad", line, _UNUSED, instead, NONE)
        elif kinds[text]:
            page.skips(at, line, instead)
    page.backward(out)


# Level 2: a gate for each row, and branches that are cut off.


def _mask(page: Gates) -> str:
    """A mask over the rows."""
    kind = page.draw.choice(("all", "none", "all", "none", "some"))
    rows = [kind == "all" or (kind == "some" and page.draw.chance(0.5)) for _ in range(page.rows)]
    if kind == "some":
        rows[:2] = page.draw.sample((True, False), 2)
    return page.assign(f"torch.tensor([{', '.join(map(str, rows))}])")


def _selected(page: Gates) -> None:
    mask, (b, c) = _mask(page), page.calls
    patterns = "torch.where({m}[:, None], {b}, {c})", "{m}[:, None] * {b} + ~{m}[:, None] * {c}"
    out = page.assign(page.draw.choice((*patterns, "torch.cat([{b}[{m}], {c}[~{m}]])")).format(m=mask, b=b, c=c))
    for index in (0, 1):
        page.runs(index, len(page.lines))
        page.reaches(index, len(page.lines), {VALUES: _ROWS, ZEROS: _NO_ROWS})
    page.backward(out)


def _routed(page: Gates) -> None:
    mask, guarded = _mask(page), page.draw.chance(0.7)
    out = page.assign(f"torch.zeros({page.rows}, {page.outputs})")
    for index, (name, rows) in enumerate(zip(page.names, (mask, f"~{mask}"), strict=True)):
        call = f"{name}({page.input}[{rows}])"
        put = f"{out}[{rows}] = {call}"
        line = page.write(f"if {rows if index == 0 else f'({rows})'}.any(): {put}" if guarded else put)
        page.runs(index, line)
        page.skips(index, line, put)
        page.reaches(index, line, {VALUES: _ROWS, ZEROS: _RUN_ON_NONE}, call)
    page.backward(out)


def _cut(page: Gates) -> None:
    """A branch that runs where nothing is recorded, or whose result is detached."""
    draw, index = page.draw, page.draw.below(2)
    gate, calls, cut = _gates(page), list(page.calls), 0
    if draw.chance(0.5):
        with page.block("torch.no_grad()") as cut:
            calls[index] = page.assign(calls[index])
        page.runs(index, cut + 1)
        page.says(
            index,
            "grad",
            cut,
            "{b} runs in the block, where nothing is recorded, so backward never comes there",
            "if True:",
        )
    else:
        calls[index] += ".detach()"
    out = page.assign(f"{gate}[0] * {calls[0]} + {gate}[1] * {calls[1]}")
    line, text = len(page.lines), page.lines[-1]
    if not cut:
        page.runs(index, line)
        rule = "{b} runs and is recorded, and `detach()` cuts it off: backward never comes there"
        page.says(index, "grad", line, rule, text.replace(".detach()", ""))
    page.runs(1 - index, line)
    page.reaches(1 - index, line, {VALUES: _OPEN, ZEROS: _CLOSED})
    page.backward(out)


# Level 3: an optimizer, after a step in which both branches took part.

_MOVED_BY = {
    "": "For Adam a gradient of zeros is a gradient like any other: the averages of the first step go on",
    ", momentum=0.9": "For SGD with momentum a gradient of zeros is a gradient like any other: the momentum of the first "
    "step goes on",
    ", weight_decay=0.1": "For SGD with weight decay a gradient of zeros is a gradient like any other: the decay is added "
    "to it",
}


def _two_steps(page: Gates) -> None:
    draw, (b, c) = page.draw, page.calls
    name, closed, skips = page.name(), draw.below(2), draw.chance(0.6)
    both = (("SGD", ""), ("SGD", ""), ("SGD", ", momentum=0.9"), ("SGD", ", weight_decay=0.1"), ("Adam", ""))
    kind, tail = draw.choice(both)
    clear = draw.weighted({"zero_grad()": 2.0, "zero_grad(set_to_none=False)": 2.0, "": 1.0})
    page.write(f"both = nn.ModuleList([{', '.join(page.names)}])")
    made = page.write(f"{name} = torch.optim.{kind}(both.parameters(), lr=0.{1 + draw.below(9)}{tail})")
    before = page.write(f"({b} + {c}).{draw.choice(('sum', 'mean'))}().backward()")
    page.write(f"{name}.step()")
    cleared = page.write(f"{name}.{clear}") if clear else 0
    call = page.calls[1 - closed]
    if skips:
        line = page.write(f"{call}.{draw.choice(('sum', 'mean'))}().backward()")
        page.skips(closed, line, page.lines[-1].replace(call, f"({b} + {c})"), MAKER)
    else:
        gates = ("0.0", "1.0") if closed == 0 else ("1.0", "0.0")
        line = page.write(f"({gates[0]} * {b} + {gates[1]} * {c}).sum().backward()")
        page.runs(closed, line)
        page.reaches(closed, line, {ZEROS: _CLOSED})
    page.runs(1 - closed, line)
    page.watched = line, page.write(f"{name}.step()")
    if not clear:
        # Of the open branch it is not asked: the first backward pass has left values there already.
        for what in ("grad", "moves"):
            page.says(
                closed, what, before, "Nothing clears the gradients that this line has left", "pass", VALUES, True
            )
        return
    page.reaches(1 - closed, line, {VALUES: _OPEN})
    other = f"{name}.{'zero_grad(set_to_none=False)' if clear == 'zero_grad()' else 'zero_grad()'}"
    to_none, adds = (
        f"`zero_grad()` drops the old gradient, and line {line} makes none for {{b}}",
        f"line {line} adds none for {{b}}",
    )
    passed = "and an optimizer passes over a parameter whose `.grad` is None, with all that it remembers"
    page.says(closed, "grad", cleared, to_none, other, NONE)
    if skips:
        page.says(
            closed, "grad", cleared, f"`set_to_none=False` fills the old gradient with zeros, and {adds}", other, ZEROS
        )
    page.says(closed, "moves", cleared, f"`zero_grad()` drops the gradient, {passed}", other, False)
    text = page.lines[made - 1]
    stands = "Plain SGD subtracts the gradient times the learning rate, and that is zero"
    if kind == "Adam" or tail:
        page.says(closed, "moves", made, _MOVED_BY[tail], text.replace("Adam", "SGD").replace(tail, ""), True)
    else:
        page.says(closed, "moves", made, stands, f"{text[:-1]}, momentum=0.9)", False)


_WHOLE: Mapping[Callable[[Gates], None], float] = {_multiplied: 3, _asked: 3, _chosen: 4}
_EACH_ROW: Mapping[Callable[[Gates], None], float] = {_selected: 2, _routed: 4, _cut: 1.5}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Gates(draw)
    draw.weighted({1: _WHOLE, 2: _EACH_ROW, 3: {_two_steps: 1.0}}[level])(page)
    first, last = page.watched
    where, found = f"in line {first}" if first else "anywhere", _read(page, page.lines)
    for name in page.names:
        # That a branch runs is asked now and then; that it does not, always.
        if not found[f"{name} runs"] or draw.chance(0.35):
            runs = {True: "runs", False: "does not run"}
            page.ask(f"{name} runs", f"is it called {where}?", lambda yes, name=name: f"`{name}` {runs[yes]}")
    for name in page.names:
        key = f"{name}.weight.grad"
        page.ask(key, "what is in it?", lambda grad, key=key: f"`{key}` {_GRAD_TEXT[grad]}", GRADS)
    for name in page.names if last else ():
        moves = {True: "moves", False: "does not move"}
        asks = f"does line {last} change its weight?"
        page.ask(f"{name} moves", asks, lambda yes, name=name: f"the last line {moves[yes]} `{name}.weight`")
    return page.finish(partial(_read, page))


def _read(page: Gates, lines: Sequence[str]) -> dict[str, Answer]:
    """Which branches run in the watched lines, what is in their ``.grad`` at the end, which have moved."""
    names, called, (first, last) = space(), set[Any](), page.watched
    found: dict[str, Answer] = {}
    pieces = statements(lines)
    head = [code for _, end, code in pieces if end <= 2]
    execute(head, names)
    branches: dict[str, nn.Linear] = {name: names[name] for name in page.names}
    for branch in branches.values():
        branch.register_forward_hook(lambda module, args, out: called.add(module))
    before: dict[str, Any] = {}
    for start, _, code in pieces[len(head) :]:
        if start == first:
            called.clear()
        if start == last:
            before = {name: branch.weight.detach().clone() for name, branch in branches.items()}
        try:
            exec(code, names)
        except RuntimeError:  # where every way is cut, there is nothing to go backward through
            if "backward()" not in code:
                raise
    for name, branch in branches.items():
        grad = branch.weight.grad
        found[f"{name} runs"] = branch in called
        found[f"{name}.weight.grad"] = NONE if grad is None else VALUES if grad.count_nonzero() else ZEROS
        if last:
            found[f"{name} moves"] = not branch.weight.equal(before[name])
    return found

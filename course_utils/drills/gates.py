"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move? (``write``)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from course_utils.drills.programs import Draw, Page, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer

NONE, ZEROS, VALUES = GRADS = ("none", "zeros", "values")
_GRAD_TEXT = {NONE: "is None", ZEROS: "holds zeros alone", VALUES: "holds numbers that are not zero"}


@dataclass(eq=False)
class _Branch:
    """A branch: its name as a token, and what becomes of it, each with the reason."""

    name: str
    runs: tuple[bool, Reason] | None = None
    grad: tuple[str, Reason] | None = None
    moves: tuple[bool, Reason] | None = None


class _GatePage(Page):
    """A program while it is written: two branches of one kind, their input, and which lines are asked about."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.rows, self.width, self.outputs = 2 + draw.below(5), 2 + draw.below(7), 2 + draw.below(7)
        self.watched = (0, 0)
        self.input = self.name()
        self.branches = [_Branch(self.name()), _Branch(self.name())]
        self.write(f"{self.input} = torch.ones({self.rows}, {self.width})")
        layer = f"nn.Linear({self.width}, {self.outputs})"
        self.write(f"{self.branches[0].name}, {self.branches[1].name} = {layer}, {layer}")

    @property
    def calls(self) -> list[str]:
        return [f"{branch.name}({self.input})" for branch in self.branches]

    def ran(self, index: int, line: int) -> None:
        branch = self.branches[index]
        branch.runs = True, Reason(line, "runs first", {"branch": f"`{branch.name}`", "line": str(line)})

    def skipped(self, index: int, line: int, rule: str = "is not called") -> None:
        """A branch that is not run: no gradient comes to it."""
        branch = self.branches[index]
        why = Reason(line, rule, {"branch": f"`{branch.name}`", "line": str(line)})
        branch.runs, branch.grad = (False, why), (NONE, why)

    def reached(self, index: int, line: int, answer: str, rule: str) -> None:
        branch = self.branches[index]
        branch.grad = answer, Reason(line, rule, {"branch": f"`{branch.name}`", "line": str(line)})


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = _GatePage(draw)
        if level < 3:
            draw.weighted(_WHOLE if level == 1 else _ROWS)(page)
        else:
            _two_steps(page)
        if page.fits and (program := _finish(page)) is not None:
            return program


def _backward(page: _GatePage, out: str) -> None:
    page.write(f"{out}.{page.draw.choice(('sum', 'mean'))}().backward()")


# Level 1: one gate for each branch.


def _gates(page: _GatePage) -> tuple[str, tuple[bool, bool]]:
    """A tensor with a gate for each branch, at least one of them open."""
    name, open_ = (
        page.name(),
        page.draw.choice(((True, False), (False, True), (True, False), (False, True), (True, True))),
    )
    numbers = ", ".join(page.draw.choice(("1.0", "0.5", "2.0")) if gate else "0.0" for gate in open_)
    page.write(f"{name} = torch.tensor([{numbers}])")
    return name, open_


def _multiplied(page: _GatePage) -> None:
    gate, open_ = _gates(page)
    first, second = page.calls
    out = page.name()
    pattern = page.draw.choice(
        ("{g}[0] * {b} + {g}[1] * {c}", "torch.cat([{g}[0] * {b}, {g}[1] * {c}])", "{b} * {g}[0] - {c} * {g}[1]")
    )
    line = page.write(f"{out} = {pattern.format(g=gate, b=first, c=second)}")
    for index in (0, 1):
        page.ran(index, line)
        page.reached(index, line, *((VALUES, "open gate") if open_[index] else (ZEROS, "closed gate")))
    _backward(page, out)


def _asked(page: _GatePage) -> None:
    gate, open_ = _gates(page)
    out = page.name()
    page.write(f"{out} = torch.zeros({page.rows}, {page.outputs})")
    for index, call in enumerate(page.calls):
        line = page.write(f"if {gate}[{index}]: {out} = {out} + {call}")
        if open_[index]:
            page.ran(index, line)
            page.reached(index, line, VALUES, "open gate")
        else:
            page.skipped(index, line)
    _backward(page, out)


def _chosen(page: _GatePage) -> None:
    """One of two results, or the result of one of two branches."""
    draw, index = page.draw, page.draw.below(2)
    (first, second), names = page.calls, [branch.name for branch in page.branches]
    out, other = page.name(), 1 - index
    kinds = {
        f"[{first}, {second}][{index}]": "unused result",
        f"torch.stack([{first}, {second}])[{index}]": "closed gate",
        f"torch.where(torch.tensor({not index}), {first}, {second})": "closed gate",
        f"[{names[0]}, {names[1]}][{index}]({page.input})": "is not called",
        f"{first} if {draw.below(3) + 1} > {draw.below(3) + (0 if not index else 3)} else {second}": "condition",
    }
    text = draw.choice(list(kinds))
    rule = kinds[text]
    if rule == "condition":
        index = 0 if eval(text.split(" if ")[1].split(" else ")[0]) else 1
        rule, other = "is not called", 1 - index
    line = page.write(f"{out} = {text}")
    page.ran(index, line)
    page.reached(index, line, VALUES, "open gate")
    if rule == "is not called":
        page.skipped(other, line)
    else:
        page.ran(other, line)
        page.reached(other, line, NONE if rule == "unused result" else ZEROS, rule)
    _backward(page, out)


# Level 2: a gate for each row, and branches that are cut off.


def _mask(page: _GatePage) -> tuple[str, tuple[bool, bool]]:
    """A mask over the rows, and whether each branch has any."""
    kind = page.draw.choice(("all", "none", "all", "none", "some"))
    rows = [kind == "all" or (kind == "some" and page.draw.chance(0.5)) for _ in range(page.rows)]
    if kind == "some":
        rows[:2] = page.draw.sample((True, False), 2)
    name = page.name()
    page.write(f"{name} = torch.tensor([{', '.join(map(str, rows))}])")
    return name, (any(rows), not all(rows))


def _selected(page: _GatePage) -> None:
    mask, has = _mask(page)
    first, second = page.calls
    out = page.name()
    pattern = page.draw.choice(
        (
            "torch.where({m}[:, None], {b}, {c})",
            "{m}[:, None] * {b} + ~{m}[:, None] * {c}",
            "torch.cat([{b}[{m}], {c}[~{m}]])",
        )
    )
    line = page.write(f"{out} = {pattern.format(m=mask, b=first, c=second)}")
    for index in (0, 1):
        page.ran(index, line)
        page.reached(index, line, *((VALUES, "rows of its own") if has[index] else (ZEROS, "no rows")))
    _backward(page, out)


def _routed(page: _GatePage) -> None:
    mask, has = _mask(page)
    guarded, out = page.draw.chance(0.7), page.name()
    page.write(f"{out} = torch.zeros({page.rows}, {page.outputs})")
    for index, (branch, rows) in enumerate(zip(page.branches, (mask, f"~{mask}"), strict=True)):
        asks = f"if {rows if '~' not in rows else f'({rows})'}.any(): " if guarded else ""
        line = page.write(f"{asks}{out}[{rows}] = {branch.name}({page.input}[{rows}])")
        if has[index]:
            page.ran(index, line)
            page.reached(index, line, VALUES, "rows of its own")
        elif guarded:
            page.skipped(index, line)
        else:
            page.ran(index, line)
            page.reached(index, line, ZEROS, "runs on no rows")
    _backward(page, out)


def _cut(page: _GatePage) -> None:
    """A branch that runs where nothing is recorded, or whose result is detached."""
    draw, index = page.draw, page.draw.below(2)
    gate, open_ = _gates(page)
    calls = page.calls
    if draw.chance(0.5):
        kept = page.name()
        with page.block("with torch.no_grad():") as cut:
            line = page.write(f"{kept} = {calls[index]}")
        calls[index] = kept
        page.ran(index, line)
        page.reached(index, cut, NONE, "run under no_grad")
    else:
        calls[index] += ".detach()"
        cut = 0
    out = page.name()
    line = page.write(f"{out} = {gate}[0] * {calls[0]} + {gate}[1] * {calls[1]}")
    if not cut:
        page.ran(index, line)
        page.reached(index, line, NONE, "detached")
    page.ran(1 - index, line)
    page.reached(1 - index, line, *((VALUES, "open gate") if open_[1 - index] else (ZEROS, "closed gate")))
    _backward(page, out)


_WHOLE: Mapping[Callable[[_GatePage], None], float] = {_multiplied: 3, _asked: 3, _chosen: 4}
_ROWS: Mapping[Callable[[_GatePage], None], float] = {_selected: 2, _routed: 4, _cut: 1.5}


# Level 3: an optimizer, after a step in which both branches took part.


def _two_steps(page: _GatePage) -> None:
    draw, (first, second) = page.draw, page.calls
    names = [branch.name for branch in page.branches]
    optimizer, closed = page.name(), page.draw.below(2)
    kind, tail = draw.choice(
        (("SGD", ""), ("SGD", ""), ("SGD", ", momentum=0.9"), ("SGD", ", weight_decay=0.1"), ("Adam", ""))
    )
    page.write(f"both = nn.ModuleList([{names[0]}, {names[1]}])")
    made = page.write(f"{optimizer} = torch.optim.{kind}(both.parameters(), lr=0.{1 + draw.below(9)}{tail})")
    before = page.write(f"({first} + {second}).{draw.choice(('sum', 'mean'))}().backward()")
    page.write(f"{optimizer}.step()")
    clear = draw.choice(
        ("zero_grad()", "zero_grad()", "zero_grad(set_to_none=False)", "zero_grad(set_to_none=False)", "")
    )
    cleared = page.write(f"{optimizer}.{clear}") if clear else 0
    skips = draw.chance(0.6)
    open_ = 1 - closed
    if skips:
        line = page.write(f"{page.calls[open_]}.{draw.choice(('sum', 'mean'))}().backward()")
    else:
        gates = ["1.0 * ", "1.0 * "]
        gates[closed] = "0.0 * "
        line = page.write(f"({gates[0]}{first} + {gates[1]}{second}).sum().backward()")
    last = page.write(f"{optimizer}.step()")
    page.watched = line, last
    page.ran(open_, line)
    page.reached(open_, line, VALUES, "open gate")
    branch = page.branches[closed]
    facts = {"branch": f"`{branch.name}`", "optimizer": f"`{kind}`", "line": str(line)}
    if skips:
        page.skipped(closed, line)
        assert branch.runs is not None
        if not clear:
            branch.grad = VALUES, Reason(before, "left over", facts)
        elif "False" in clear:
            branch.grad = ZEROS, Reason(cleared, "set to zeros", facts)
        else:
            branch.grad = NONE, Reason(cleared, "set to None", facts)
    else:
        page.ran(closed, line)
        if clear:
            page.reached(closed, line, ZEROS, "closed gate")
        else:
            branch.grad = VALUES, Reason(before, "left over", facts)
    assert branch.grad is not None
    answer = branch.grad[0]
    if not clear:
        page.branches[open_].grad = None  # the first backward pass has left some there already
    if not skips and "False" in clear:
        branch.grad = None  # the zeros would be there without this backward pass, too
    drives = kind == "Adam" or bool(tail)
    rule = "Adam moves on" if kind == "Adam" else "momentum moves on" if "momentum" in tail else "decay moves on"
    if answer == VALUES:
        if skips or "decay" not in tail:  # else it would move without the old gradient, too
            branch.moves = True, Reason(before, "left over", facts)
    elif answer == NONE:
        branch.moves = (False, Reason(cleared, "None is passed over", facts)) if drives else None
    else:
        branch.moves = (drives, Reason(made, rule if drives else "zeros move nothing", facts))


def _finish(page: _GatePage) -> Program | None:
    keys: list[tuple[str, bool | str, Reason, str, tuple[str, ...]]] = []
    for branch in page.branches:
        # That a branch runs is asked now and then; that it does not, always.
        if branch.runs is not None and (not branch.runs[0] or page.draw.chance(0.35)):
            then = f"`{branch.name}` {'runs' if branch.runs[0] else 'does not run'}"
            keys.append((f"{branch.name} runs", *branch.runs, then, ()))
    for branch in page.branches:
        if branch.grad is not None:
            then = f"`{branch.name}.weight.grad` {_GRAD_TEXT[branch.grad[0]]}"
            keys.append((f"{branch.name}.weight.grad", *branch.grad, then, GRADS))
    for branch in page.branches:
        if branch.moves is not None:
            then = f"the last line {'moves' if branch.moves[0] else 'does not move'} `{branch.name}.weight`"
            keys.append((f"{branch.name} moves", *branch.moves, then, ()))
    if len(keys) < 3 or len({value for _, value, *_ in keys}) < 2:
        return None
    names, questions = page.names(), []
    for key, value, why, then, texts in keys:
        text = named(explain_answer(why, then), names)
        questions.append(Question(named(key, names), value, why.line, why.rule, text, texts))
    return Program(tuple(named(row, names) for row in page.lines), tuple(questions), edited=page.watched)

"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move? (``write``)"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from course_utils.drills.gate_page import NONE, VALUES, ZEROS, GatePage, finish
from course_utils.drills.programs import Draw, Program, Reason


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = GatePage(draw)
        if level < 3:
            draw.weighted(_WHOLE if level == 1 else _ROWS)(page)
        else:
            _two_steps(page)
        if page.fits and (program := finish(page)) is not None:
            return program


def _backward(page: GatePage, out: str) -> None:
    page.write(f"{out}.{page.draw.choice(('sum', 'mean'))}().backward()")


# Level 1: one gate for each branch.


def _gates(page: GatePage) -> tuple[str, tuple[bool, bool]]:
    """A tensor with a gate for each branch, at least one of them open."""
    name, open_ = (
        page.name(),
        page.draw.choice(((True, False), (False, True), (True, False), (False, True), (True, True))),
    )
    numbers = ", ".join(page.draw.choice(("1.0", "0.5", "2.0")) if gate else "0.0" for gate in open_)
    page.write(f"{name} = torch.tensor([{numbers}])")
    return name, open_


def _multiplied(page: GatePage) -> None:
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


def _asked(page: GatePage) -> None:
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


def _chosen(page: GatePage) -> None:
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


def _mask(page: GatePage) -> tuple[str, tuple[bool, bool]]:
    """A mask over the rows, and whether each branch has any."""
    kind = page.draw.choice(("all", "none", "all", "none", "some"))
    rows = [kind == "all" or (kind == "some" and page.draw.chance(0.5)) for _ in range(page.rows)]
    if kind == "some":
        rows[:2] = page.draw.sample((True, False), 2)
    name = page.name()
    page.write(f"{name} = torch.tensor([{', '.join(map(str, rows))}])")
    return name, (any(rows), not all(rows))


def _selected(page: GatePage) -> None:
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


def _routed(page: GatePage) -> None:
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


def _cut(page: GatePage) -> None:
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


_WHOLE: Mapping[Callable[[GatePage], None], float] = {_multiplied: 3, _asked: 3, _chosen: 4}
_ROWS: Mapping[Callable[[GatePage], None], float] = {_selected: 2, _routed: 4, _cut: 1.5}


# Level 3: an optimizer, after a step in which both branches took part.


def _two_steps(page: GatePage) -> None:
    draw, (first, second) = page.draw, page.calls
    names = [branch.name for branch in page.branches]
    optimizer, closed, skips = page.name(), draw.below(2), draw.chance(0.6)
    kind, tail = draw.choice(
        (("SGD", ""), ("SGD", ""), ("SGD", ", momentum=0.9"), ("SGD", ", weight_decay=0.1"), ("Adam", ""))
    )
    clear = draw.weighted({"zero_grad()": 2.0, "zero_grad(set_to_none=False)": 2.0, "": 1.0})
    page.write(f"both = nn.ModuleList([{names[0]}, {names[1]}])")
    made = page.write(f"{optimizer} = torch.optim.{kind}(both.parameters(), lr=0.{1 + draw.below(9)}{tail})")
    before = page.write(f"({first} + {second}).{draw.choice(('sum', 'mean'))}().backward()")
    page.write(f"{optimizer}.step()")
    cleared = page.write(f"{optimizer}.{clear}") if clear else 0
    if skips:
        line = page.write(f"{page.calls[1 - closed]}.{draw.choice(('sum', 'mean'))}().backward()")
        page.skipped(closed, line)
    else:
        gates = ("0.0", "1.0") if closed == 0 else ("1.0", "0.0")
        line = page.write(f"({gates[0]} * {first} + {gates[1]} * {second}).sum().backward()")
        page.ran(closed, line)
    page.ran(1 - closed, line)
    page.watched = line, page.write(f"{optimizer}.step()")
    left_over = Reason(before, "left over")
    branch = page.branches[closed]
    if not clear:
        # Of the open branch it is not asked: the first backward pass has left values there already.
        branch.grad = VALUES, left_over
        if skips or "decay" not in tail:  # else it would move without the old gradient, too
            branch.moves = True, left_over
        return
    page.reached(1 - closed, line, VALUES, "open gate")
    if skips and clear == "zero_grad()":
        branch.grad = NONE, Reason(cleared, "set to None", {"branch": f"`{branch.name}`", "line": str(line)})
        if kind == "Adam" or tail:
            branch.moves = False, Reason(cleared, "None is passed over")
        return
    if skips:
        branch.grad = ZEROS, Reason(cleared, "set to zeros", {"branch": f"`{branch.name}`", "line": str(line)})
    elif clear == "zero_grad()":
        # After `set_to_none=False` the zeros would be there without this backward pass, too.
        page.reached(closed, line, ZEROS, "closed gate")
    moved_by = {"": "Adam moves on", ", momentum=0.9": "momentum moves on", ", weight_decay=0.1": "decay moves on"}
    drives = kind == "Adam" or bool(tail)
    branch.moves = drives, Reason(made, moved_by[tail] if drives else "zeros move nothing")

"""Drills on in-place edits: does backward notice, and is its gradient right? (``write``)

Every edit that is not recorded comes after the loss, so that the right gradient is that of the loss as it was computed.

Imports drill_programs, drill_rules and drill_run.
"""

from __future__ import annotations

from course_utils.drill_programs import Draw, Page, Program, Question, Reason, named
from course_utils.drill_rules import explain_answer
from course_utils.drill_run import ERROR, RIGHT, WRONG

OUTCOMES = (ERROR, WRONG, RIGHT)

# What an operation keeps for backward follows from its derivative.
# https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml
_KEEP_INPUT = (("{h}.sin()", "sin"), ("{h}.cos()", "cos"), ("{h} ** 2", "**"), ("{h}.square()", "square"))
_KEEP_RESULT = (("{h}.exp()", "exp"), ("{h}.sigmoid()", "sigmoid"), ("{h}.tanh()", "tanh"), ("{h}.sqrt()", "sqrt"))
_KEEP_NOTHING = (("{h} + 1", "+"), ("{h} * 3", "*"), ("-{h}", "-"), ("{h} / 2", "/"), ("4 * {h}", "*"), ("{h} - 0.2", "-"))
_METHODS = ("mul_(2)", "add_(1)", "zero_()", "mul_(0.5)", "add_(0.5)", "mul_(3)")

# Ways to edit, by level, with their weights.
_ROUTES = {
    1: {"plain": 4, "no_grad": 2, "data": 4, "copy": 2, "not in place": 2.5, "before": 1},
    2: {"plain": 1.5, "view": 2.5, "detach": 2, "data": 4, "copy": 3, "not in place": 1.5, "before": 1, "base": 2},
    3: {
        "nested view": 3,
        "detach": 1.5,
        "data": 2,
        "numpy": 2.5,
        "elsewhere": 1.5,
        "elsewhere, counted": 1,
        "undone": 2.5,
        "copy": 3,
        "before": 0.5,
    },
}
# These have a reason of their own for a right gradient, so backward must need the edited tensor.
_NEED_IT = ("copy", "not in place", "before", "elsewhere", "elsewhere, counted", "undone")


class _Edits(Page):
    """A program while it is written.

    Attributes:
        victim: the tensor that is edited, or seems to be.
        is_leaf: whether it is a leaf that requires grad, which only an unrecorded edit may change.
        needed: whether backward needs its values.
        saver: the line of the operation that keeps them, or would.
        why: what that operation keeps, in words.
        end: the tensor that the loss is made of.
    """

    def __init__(self, draw: Draw, level: int) -> None:
        super().__init__(draw)
        self.level = level
        self.size = 4 if level == 3 else draw.choice((3, 4, 5))
        self.victim, self.end, self.why = "", "", ""
        self.is_leaf = self.needed = self.squares = False
        self.saver = self.loss = 0
        self.edited = (0, 0)
        self.answers: list[tuple[str, bool | str, Reason]] = []

    # The forward part.

    def leaf(self, flag: bool = True) -> str:
        name, draw = self.name(), self.draw
        calls = [f"torch.full(({self.size},), {value})" for value in ("0.5", "1.5", "2.0")]
        call = draw.choice((*calls, f"torch.ones({self.size})", f"torch.linspace(1, 2, {self.size})"))
        if flag:
            call = f"{call[:-1]}, requires_grad=True)" if draw.chance(0.7) else f"{call}.requires_grad_()"
        self.write(f"{name} = {call}")
        return name

    def middle(self, source: str) -> str:
        """A tensor that is no leaf, and whose values nothing needs."""
        name, draw = self.name(), self.draw
        pattern = draw.choice(("{x} * {k}", "{x} + {k}", "{k} * {x}", "{x} / {k}"))
        self.write(f"{name} = {pattern.format(x=source, k=draw.choice(('2', '3', '0.5', '4')))}")
        return name

    def apply(self, pattern: str, **operands: str) -> str:
        name = self.name()
        self.saver = self.write(f"{name} = {pattern.format(**operands)}")
        return name

    def forward(self, route: str) -> None:
        """Writes everything up to the loss, the loss itself and edits before it apart."""
        draw = self.draw
        self.needed = route in _NEED_IT or draw.chance(0.75)
        part = route.startswith("elsewhere")
        kinds = ["input"] if part else ["input", "factor"] if route == "before" else ["input", "result", "factor", "loss"]
        if not self.needed:
            kinds = ["sum", "result of input", "input of result"] + ["plain factor"] * (self.level > 1)
        kind = draw.choice(kinds)
        # The leaves first, then what is computed from them.
        has_second = kind in ("factor", "plain factor") or (kind == "sum" and draw.chance(0.6))
        first = self.leaf()
        second = self.leaf(flag=kind != "plain factor") if has_second else ""
        direct = kind in ("input", "factor", "sum", "input of result") and route != "base" and draw.chance(0.35)
        inner = first if direct else self.middle(first)
        self.victim, self.is_leaf = inner, direct
        if kind in ("factor", "sum") and second and draw.chance(0.4):
            self.victim, self.is_leaf = second, True
        if route == "base" and self.is_leaf:
            self.victim, self.is_leaf = inner, False
        if route == "before":
            self.edit(self.change(self.victim), "before")
        self._operation(kind, inner, second, part)
        if self.level > 1 and draw.chance(0.3):
            self.end = self.middle(self.end)

    def _operation(self, kind: str, inner: str, second: str, part: bool) -> None:
        draw = self.draw
        if kind in ("input", "result of input"):
            pattern, op = draw.choice(_KEEP_INPUT)
            shown = inner + "[:2]" * part
            self.end = self.apply(pattern, h=shown)
            kept = f"`{op}` in line {self.saver} needs its input `{shown}` in backward"
            self.why = kept if kind == "input" else f"{kept}, and not its result `{self.end}`"
        elif kind in ("result", "input of result"):
            pattern, op = draw.choice(_KEEP_RESULT)
            self.end = self.apply(pattern, h=inner)
            kept = f"`{op}` in line {self.saver} needs its result `{self.end}` in backward"
            self.why = kept if kind == "result" else f"{kept}, and not its input `{inner}`"
        elif kind in ("factor", "plain factor"):
            pair = [inner, second] if draw.chance(0.5) else [second, inner]
            self.end = self.apply("{a} * {b}", a=pair[0], b=pair[1])
            other = second if self.victim == inner else inner
            self.why = f"`*` in line {self.saver} needs `{self.victim}` in backward, for the gradient of `{other}`"
            if kind == "plain factor":
                self.why = (
                    f"`*` in line {self.saver} would need `{inner}` for the gradient of `{second}` alone, and `{second}` "
                    "does not require grad"
                )
        else:
            if second:
                op = draw.choice("+-") if kind == "loss" else "+"
                self.end = self.apply(f"{{a}} {op} {{b}}", a=inner, b=second)
            else:
                pattern, op = draw.choice(_KEEP_NOTHING)
                self.end = self.apply(pattern, h=inner)
            self.why = f"`{op}` in line {self.saver} needs no values in backward"
        if kind in ("result", "result of input", "loss") or (kind == "sum" and draw.chance(0.3)):
            self.victim, self.is_leaf = self.end, False
        self.squares = kind == "loss"

    def write_loss(self) -> None:
        draw, y = self.draw, self.end
        if self.squares:
            self.loss = self.write(f"loss = {draw.choice(('({y} ** 2).sum()', '({y} ** 2).mean()')).format(y=y)}")
            self.saver, self.why = self.loss, f"`**` in line {self.loss} needs its input `{y}` in backward"
        else:
            self.loss = self.write(f"loss = {draw.choice(('{y}.sum()', '{y}.mean()', '(5 * {y}).sum()')).format(y=y)}")

    # The edit.

    def change(self, target: str) -> str:
        """An in-place edit."""
        forms = [f"{target}.{self.draw.choice(_METHODS)}", f"{target} += 1", f"{target} *= 2"]
        return self.draw.choice([*forms, f"{target}[0] = 0.1"] if self.level > 1 else forms)

    def edit(self, text: str, rule: str = "edited", guarded: bool | None = None) -> int:
        """Writes an edit, under ``no_grad`` where the victim is a leaf; returns its line."""
        start = len(self.lines) + 1
        if self.is_leaf if guarded is None else guarded:
            with self.block("with torch.no_grad():"):
                line = self.write(text)
        else:
            line = self.write(text)
        self.edited = (self.edited[0] or start, line)
        return line

    def alias(self, tail: str) -> tuple[str, int]:
        """What is edited in the victim's place, and the line of the alias: a name of its own, or inline (0)."""
        if self.level > 1 and self.draw.chance(0.6):
            name = self.name()
            return name, self.write(f"{name} = {self.victim}{tail}")
        return self.victim + tail, 0

    def through(self, tail: str) -> tuple[int, int]:
        """An edit through an alias; returns the line of the alias and that of the edit."""
        target, line = self.alias(tail)
        if line:
            at = self.edit(self.change(target), guarded=False)
            return line, at
        at = self.edit(f"{target}.{self.draw.choice(_METHODS)}", guarded=False)
        return at, at

    def answer(self, what: str, value: bool | str, line: int, rule: str, **facts: str) -> None:
        key = what if what == "backward" else f"{self.victim} {what}"
        facts = {"why": self.why, "victim": f"`{self.victim}`", "edit": str(self.edited[1]), **facts}
        self.answers.append((key, value, Reason(line, rule, facts)))

    def answer_backward(self, outcome: str, line: int, rule: str) -> None:
        """What backward does, were the victim's values needed; else its gradient is right."""
        if self.needed:
            self.answer("backward", outcome, line, rule)
        else:
            self.answer("backward", RIGHT, self.saver, "not needed")


def _plain(page: _Edits) -> None:
    recorded = not page.is_leaf and not page.squares and page.draw.chance(0.4)
    if not recorded:
        page.write_loss()
    line = page.edit(page.change(page.victim))
    if recorded:
        page.write_loss()
    _noticed(page, line)


def _no_grad(page: _Edits) -> None:
    page.write_loss()
    _noticed(page, page.edit(page.change(page.victim), guarded=True))


def _noticed(page: _Edits, line: int) -> None:
    page.answer_backward(ERROR, line, "noticed")
    page.answer("changed", True, line, "edited")
    page.answer("counted", True, line, "counted")


def _before(page: _Edits) -> None:
    page.write_loss()
    line = page.edited[1]
    page.answer("backward", RIGHT, line, "before")
    page.answer("changed", True, line, "edited")
    page.answer("counted", True, line, "counted")


def _not_in_place(page: _Edits) -> None:
    page.write_loss()
    line = page.edit(f"{page.victim}.{page.draw.choice(_METHODS).replace('_(', '(').replace('zero', 'neg')}")
    for what, value in (("backward", RIGHT), ("changed", False), ("counted", False)):
        page.answer(what, value, line, "not in place")


def _view(page: _Edits) -> None:
    page.write_loss()
    tail = page.draw.choice(("[1:]", "[:2]", "[0]"))
    if page.is_leaf:
        at = line = page.edit(f"{page.victim}{tail}.{page.draw.choice(_METHODS)}")
    else:
        line, at = page.through(tail)
    _shared(page, line, at)


def _nested_view(page: _Edits) -> None:
    page.write_loss()
    draw = page.draw
    outer, inner = draw.choice((("[1:]", "[0]"), ("[:3]", "[1:]"), ("[1:]", "[:2]"), (".view(2, 2)", "[0]")))
    name = page.name()
    change = f"{name}{inner}.{draw.choice(_METHODS)}" if draw.chance(0.6) else f"{name}{inner} = 0.1"
    if page.is_leaf or draw.chance(0.4):
        start = len(page.lines) + 1
        with page.block("with torch.no_grad():"):
            line = page.write(f"{name} = {page.victim}{outer}")
            at = page.write(change)
        page.edited = (start, at)
    else:
        line = page.write(f"{name} = {page.victim}{outer}")
        at = page.edit(change)
    _shared(page, line, at)


def _detach(page: _Edits) -> None:
    page.write_loss()
    _shared(page, *page.through(".detach()"))


def _shared(page: _Edits, line: int, at: int) -> None:
    page.answer_backward(ERROR, at, "noticed")
    page.answer("changed", True, line, "shares")
    page.answer("counted", True, line, "shares its counter")


def _data(page: _Edits) -> None:
    page.write_loss()
    line, _ = page.through(".data")
    page.answer_backward(WRONG, line, "unnoticed")
    page.answer("changed", True, line, "shares")
    page.answer("counted", False, line, "own counter")


def _numpy(page: _Edits) -> None:
    page.write_loss()
    name = page.name()
    line = page.write(f"{name} = {page.victim}.detach().numpy()")
    page.edit(f"{name}{page.draw.choice((' *= 2', ' += 1', '[0] = 0.1', '[:] = 0.1', '[1:] *= 3'))}", guarded=False)
    page.answer_backward(WRONG, line, "unnoticed by numpy")
    page.answer("changed", True, line, "shares")
    page.answer("counted", False, line, "no counter")


def _copy(page: _Edits) -> None:
    page.write_loss()
    tails = [".detach().clone()"] if page.is_leaf else [".clone()", ".clone()", ".detach().clone()"]
    if page.level > 2:
        tails += [".detach()[1:].clone()"] if page.is_leaf else ["[1:].clone()", "[:2].clone()"]
    line, _ = page.through(page.draw.choice(tails))
    for what, value in (("backward", RIGHT), ("changed", False), ("counted", False)):
        page.answer(what, value, line, "copy")


def _base(page: _Edits) -> None:
    draw = page.draw
    tail = draw.choice((".detach()", ".data", "[1:]", ".clone()", ".clone()", ".detach().clone()"))
    if not page.squares:
        page.write_loss()
    name = page.name()
    line = page.write(f"{name} = {page.victim}{tail}")
    if page.squares:
        page.write_loss()
    at = page.edit(f"{page.victim}.{draw.choice(_METHODS)}")
    _noticed(page, at)
    copied = tail.endswith("clone()")
    facts = {"victim": f"`{page.victim}`", "why": "", "edit": str(at)}
    page.answers.append((f"{name} changed", not copied, Reason(line, "copy" if copied else "shares", facts)))


def _elsewhere(page: _Edits) -> None:
    page.write_loss()
    change = page.draw.choice((".zero_()", ".mul_(2)", ".add_(1)"))
    line = page.edit(f"{page.victim}.data[2:]{change}", guarded=False)
    page.answer("backward", RIGHT, line, "elsewhere")
    page.answer("changed", True, line, "shares")
    page.answer("counted", False, line, "own counter")


def _elsewhere_counted(page: _Edits) -> None:
    page.write_loss()
    change = page.draw.choice((".zero_()", ".mul_(2)", ".add_(1)"))
    line = page.edit(f"{page.victim}[2:]{change}")
    page.answer("backward", ERROR, line, "one counter")
    page.answer("changed", True, line, "shares")
    page.answer("counted", True, line, "shares its counter")


def _undone(page: _Edits) -> None:
    page.write_loss()
    there, back = page.draw.choice((("mul_(2)", "div_(2)"), ("mul_(4)", "div_(4)"), ("neg_()", "neg_()"), ("div_(2)", "mul_(2)")))
    target, line = page.alias(".data")
    first = page.edit(f"{target}.{there}", guarded=False)
    last = page.edit(f"{target}.{back}", guarded=False)
    page.answer("backward", RIGHT, last, "undone")
    page.answer("changed", False, last, "undone")
    page.answer("counted", False, line or first, "own counter")


_WAYS = {
    "plain": _plain,
    "no_grad": _no_grad,
    "data": _data,
    "copy": _copy,
    "not in place": _not_in_place,
    "before": _before,
    "view": _view,
    "nested view": _nested_view,
    "detach": _detach,
    "base": _base,
    "numpy": _numpy,
    "elsewhere": _elsewhere,
    "elsewhere, counted": _elsewhere_counted,
    "undone": _undone,
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = _Edits(draw, level)
        route = draw.weighted(_ROUTES[level])
        page.forward(route)
        _WAYS[route](page)
        page.write("loss.backward()")
        if page.fits:
            return _finish(page)


_THEN = {
    ERROR: "`loss.backward()` raises an error",
    WRONG: "`loss.backward()` runs and gives a wrong gradient",
    RIGHT: "`loss.backward()` gives the right gradient",
}


def _finish(page: _Edits) -> Program:
    names, questions = page.names(), []
    for key, value, why in page.answers:
        name, _, what = key.partition(" ")
        if key == "backward":
            then = _THEN[str(value)]
        elif what == "changed":
            then = f"`{name}` {'has other values than before' if value else 'keeps its values'}"
        else:
            then = f"the version counter of `{name}` {'moves' if value else 'stays where it was'}"
        choices = OUTCOMES if key == "backward" else ()
        text = named(explain_answer(why, then), names)
        questions.append(Question(named(key, names), value, why.line, why.rule, text, choices))
    return Program(
        tuple(named(line, names) for line in page.lines),
        tuple(questions),
        edited=page.edited,
        loss=page.loss,
    )

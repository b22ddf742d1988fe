"""Drills on in-place edits: does backward notice, and is its gradient right? (``write``)

Every edit that is not recorded comes after the loss, so that the right gradient is that of the loss as it was computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from course_utils.drills.programs import MAKER, Answer, Draw, Page, Program
from course_utils.drills.run import space, statements

TASK = "What does the last line do, and what does the edit change?"
LESSONS = ("detach",)
MARKS: Mapping[int, str] = {}
OUTCOMES = ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
_ASKS = "... (right: the gradient of the loss as it was computed)"
_SAYS = {ERROR: "raises an error", WRONG: "runs and gives a wrong gradient", RIGHT: "gives the right gradient"}
# What an operation keeps for backward follows from its derivative.
# https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml
KEEPS = {
    "input": (("{x}.sin()", "sin"), ("{x}.cos()", "cos"), ("{x} ** {k}", "**"), ("{x}.square()", "square")),
    "result": (("{x}.exp()", "exp"), ("{x}.sigmoid()", "sigmoid"), ("{x}.tanh()", "tanh"), ("{x}.sqrt()", "sqrt")),
    "nothing": (("{x} + {k}", "+"), ("{k} * {x}", "*"), ("-{x}", "-"), ("{x} / {k}", "/"), ("{x} - {k}", "-")),
}
_METHODS = ("mul_(2)", "add_(1)", "zero_()", "mul_(0.5)", "add_(0.5)", "mul_(3)")
# These have a reason of their own for a right gradient, so backward must need the edited tensor.
_NEED_IT = ("copy", "not in place", "before", "elsewhere", "elsewhere, counted", "undone", "rebound")


class Edits(Page):
    """A program while it is written.

    Attributes:
        victim: the tensor that is edited, or seems to be.
        is_leaf: whether it is a leaf that requires grad, which only an unrecorded edit may change.
        why: what the operation keeps that backward needs, in words.
        saver: the line of that operation.
        end: the tensor that the loss is made of.
        edited: the first and last line of the edit.
        loss: the line that makes the loss.
    """

    def __init__(self, draw: Draw, level: int, route: str) -> None:
        super().__init__(draw)
        self.level, self.route = level, route
        self.size = 4 if level == 3 else draw.choice((3, 4, 5))
        self.victim, self.end, self.why, self.squares = "", "", "", False
        self.saver = self.loss = 0
        self.edited = (0, 0)

    @property
    def is_leaf(self) -> bool:
        return self.space[self.victim].is_leaf

    # The forward part.

    def assign(self, text: str) -> str:
        name = self.name()
        self.write(f"{name} = {text}")
        return name

    def leaf(self, flag: bool = True) -> str:
        draw, n = self.draw, self.size
        calls = [f"torch.full(({n},), {value})" for value in ("0.5", "1.5", "2.0")]
        call = draw.choice((*calls, f"torch.ones({n})", f"torch.linspace(1, 2, {n})"))
        if flag:
            call = f"{call[:-1]}, requires_grad=True)" if draw.chance(0.7) else f"{call}.requires_grad_()"
        return self.assign(call)

    def middle(self, source: str) -> str:
        """A tensor that is no leaf, and whose values nothing needs."""
        pattern = self.draw.choice(("{x} * {k}", "{x} + {k}", "{k} * {x}", "{x} / {k}"))
        return self.assign(pattern.format(x=source, k=self.draw.choice(("2", "3", "0.5", "4"))))

    def operate(self, pattern: str, **operands: str) -> None:
        self.end = self.assign(pattern.format(**operands, k=self.draw.choice("23")))
        self.saver = len(self.lines)

    def forward(self) -> None:
        """Writes everything up to the loss, and edits before it."""
        draw, route = self.draw, self.route
        needed = route in _NEED_IT or draw.chance(0.85)
        kinds = ["input", "result", "factor", "loss"]
        if route.startswith("elsewhere"):
            kinds = ["input"]
        elif route == "before":
            kinds = ["input", "factor"]
        elif not needed:
            kinds = ["nothing", "result of input", "input of result"] + ["plain factor"] * (self.level > 1)
        if route in ("step", "replaced"):
            # An optimizer has leaves alone; a result that is kept is kept apart from what `.data` is set to.
            kinds = [kind for kind in kinds if kind in ("input", "factor", "nothing", "input of result")]
        kind = draw.choice(kinds)
        # The leaves first, then what is computed from them.
        has_second = kind.endswith("factor") or (kind == "nothing" and draw.chance(0.6))
        first = self.leaf()
        second = self.leaf(flag=kind != "plain factor") if has_second else ""
        can = kind in ("input", "factor", "nothing", "input of result") and route != "base"
        inner = first if can and draw.chance(1.0 if route == "step" else 0.35) else self.middle(first)
        self.victim = second if second and can and kind != "input" and draw.chance(0.4) else inner
        if route == "before":
            self.edit(self.change(self.victim))
        self.operation(kind, inner, second)
        if kind in ("result", "result of input", "loss") or (
            kind == "nothing" and route != "step" and draw.chance(0.3)
        ):
            self.victim = self.end
        if self.level > 1 and not self.squares and draw.chance(0.3):
            self.end = self.middle(self.end)

    def operation(self, kind: str, inner: str, second: str) -> None:
        """The operation that keeps the victim's values for backward, or does not, and what it keeps in words."""
        draw = self.draw
        kept, _, other = kind.partition(" of ")
        if kept in ("input", "result") and kind != "loss":
            source = {"result of input": "input", "input of result": "result"}.get(kind, kept)
            shown = inner + "[:2]" * self.route.startswith("elsewhere")
            pattern, op = draw.choice(KEEPS[source])
            self.operate(pattern, x=shown)
            names = {"input": shown, "result": self.end}
            self.why = f"`{op}` in line {self.saver} needs its {source} `{names[source]}` in backward"
            self.why += f", and not its {kept} `{names[kept]}`" if other else ""
        elif second and kind.endswith("factor"):
            one, two = draw.sample((inner, second), 2)
            self.operate("{a} * {b}", a=one, b=two)
            partner = second if self.victim == inner else inner
            self.why = f"`*` in line {self.saver} needs `{self.victim}` in backward, for the gradient of `{partner}`"
            if kind == "plain factor":
                self.why = (
                    f"`*` in line {self.saver} would need `{inner}` for the gradient of `{second}` alone, and `{second}` does "
                    "not require grad"
                )
        else:
            pattern, op = ("{x} + {y}", "+") if second else draw.choice(KEEPS["nothing"])
            self.operate(pattern, x=inner, y=second)
            self.why = f"`{op}` in line {self.saver} needs no values in backward"
        self.squares = kind == "loss"

    def write_loss(self) -> None:
        y, forms = self.end, ("{y}.sum()", "{y}.mean()", "(5 * {y}).sum()")
        text = self.draw.choice(("({y} ** 2).sum()", "({y} ** 2).mean()") if self.squares else forms).format(y=y)
        self.loss = self.write(f"loss = {text}")
        if self.squares:
            self.saver, self.why = self.loss, f"`**` in line {self.loss} needs its input `{y}` in backward"

    # The edit.

    def change(self, target: str) -> str:
        """An in-place edit."""
        forms = [f"{target}.{self.draw.choice((*_METHODS, 'fill_(0.3)', 'sub_(1)', 'div_(8)'))}", f"{target} += 1"]
        return self.draw.choice([*forms, f"{target} *= 2", *[f"{target}[0] = 0.1"] * (self.level > 1)])

    def method(self, target: str) -> str:
        return f"{target}.{self.draw.choice(_METHODS)}"

    def edit(self, text: str, guarded: bool | None = None) -> int:
        """Writes an edit, under ``no_grad`` where the victim is a leaf; returns its line."""
        start = len(self.lines) + 1
        guard = self.is_leaf if guarded is None else guarded
        with self.block("torch.no_grad()") if guard else contextlib.nullcontext():
            line = self.write(text)
        self.edited = (self.edited[0] or start, line)
        return line

    def says(
        self, what: str, line: int, rule: str, without: str | Mapping[int, str] = "pass", *answers: Answer, **more: Any
    ) -> None:
        """What a line does to one of the questions."""
        self.effect(
            line, rule, without, what if what == "backward" else f"{self.victim} {what}", answers=answers, **more
        )

    def edits(self, line: int, *what: str) -> None:
        """What an edit of the victim, in whatever way, does by itself."""
        h = f"`{self.victim}`"
        noticed = (
            f"{self.why}. The edit in line {line} comes after that and moves the version counter, so backward refuses"
        )
        for key in what:
            if key == "backward":
                self.says("backward", line, noticed, "pass", ERROR)
            elif key == "changed":
                self.says("changed", line, f"Line {line} edits {h} in place")
            else:
                self.says(
                    "counted", line, "An edit in place moves the version counter of the tensor, under `no_grad()` too"
                )

    def alone(self, line: int, rule: str, without: str | Mapping[int, str] = "pass") -> None:
        """One rule for all questions."""
        for what in ("backward", "changed", "counted"):
            self.says(what, line, rule, without)

    def asks(self) -> None:
        first, last = self.edited
        h, where = self.victim, f"in line {first}" if first == last else f"in lines {first} to {last}"
        for name in dict.fromkeys(
            (h, *(key.partition(" ")[0] for key in (e.about for e in self.effects) if " changed" in key))
        ):
            asks = f"does {name} hold other values after line {last} than before line {first}?"
            values = {True: "has other values than before", False: "keeps its values"}
            self.ask(f"{name} changed", asks, lambda yes, name=name: f"`{name}` {values[yes]}")
        moves = {True: "moves", False: "stays where it was"}
        self.ask(
            f"{h} counted", f"does {h}._version grow {where}?", lambda yes: f"the version counter of `{h}` {moves[yes]}"
        )


def _plain(page: Edits, guarded: bool | None = None) -> None:
    recorded = guarded is None and not page.is_leaf and not page.squares and page.draw.chance(0.4)
    if not recorded:
        page.write_loss()
    line = page.edit(page.change(page.victim), guarded)
    if recorded:
        page.write_loss()
    page.edits(line, "backward", "changed", "counted")


def _before(page: Edits) -> None:
    page.write_loss()
    first, line = page.edited
    edit = "\n".join(page.lines[first - 1 : line])
    rule = f"{page.why}, and line {line} has run by then: what is kept is the edited tensor"
    rows = {number: "pass" for number in range(first + 1, line + 1)} | {first: "if True:" if first < line else "pass"}
    later = rows | {page.loss: f"{page.lines[page.loss - 1]}\n{edit}"}
    page.says("backward", line, rule, later, instead="With the edit after the loss")
    page.edits(line, "changed", "counted")


def _not_in_place(page: Edits) -> None:
    page.write_loss()
    method = page.draw.choice(("mul(2)", "add(1)", "neg()", "mul(0.5)", "add(0.5)", "mul(3)"))
    line = page.edit(f"{page.victim}.{method}")
    text = f"{page.victim}.{method.replace('(', '_(')}"
    rule = f"Without the underscore a new tensor is made and dropped; `{page.victim}` stays as it was"
    page.alone(line, rule, f"with torch.no_grad(): {text}" if page.is_leaf and page.edited[0] == line else text)


# How the alias of a tensor is made decides what an edit of it does: for each question the rule, and what to write
# instead. `h` is the victim; where the last row has nothing for a question, the edit itself decides.
_SHARES = "Memory is shared with `{h}`, so an edit of one is an edit of the other"
_COUNTS = "The version counter is shared with `{h}` as the memory is, so the edit counts for both"
_OWN = "`.data` shares the memory of `{h}` and has a version counter of its own"
_ARRAY = "The array shares the memory of `{h}`, and NumPy knows of no version counter"
_TAKES = "so backward takes the new values for the old ones"
_VIEW = {"changed": (_SHARES, ".clone()"), "counted": (_COUNTS, ".clone()")}
_DATA = {
    "backward": ("{why}. `.data` has a version counter of its own, " + _TAKES, ".detach()"),
    "changed": (_SHARES, ".data.clone()"),
    "counted": (_OWN, ".detach()"),
}
_NUMPY = {
    "backward": ("{why}. NumPy moves no version counter, " + _TAKES, ".detach()"),
    "changed": (_SHARES, ".detach().clone().numpy()"),
    "counted": (_ARRAY, ".detach()"),
}


def _through(
    page: Edits, tail: str, rules: Mapping[str, tuple[str, str]], change: Callable[[str], str] | None = None
) -> None:
    """An edit through an alias, which at level 1 stands in the line of the edit itself."""
    page.write_loss()
    h, inline = page.victim, page.level == 1 or (tail.startswith("[") and page.is_leaf)
    name = h + tail if inline else page.assign(h + tail)
    line = len(page.lines)
    at = page.edit((change or page.method)(name), guarded=inline and tail.startswith("["))
    line = at if inline else line
    page.edits(at, *({"backward", "changed", "counted"} - set(rules)))
    for what, (rule, instead) in rules.items():
        # A view of less than the whole goes on being one where it is copied.
        tails = tail + instead if tail.startswith(("[", ".view")) else instead
        without = page.lines[line - 1].strip().replace(h + tail, h + tails)
        answers = (WRONG,) if what == "backward" else ()
        page.says(what, line, rule.format(h=h, why=page.why), without, *answers)


def _view(page: Edits) -> None:
    _through(page, page.draw.choice(("[1:]", "[:2]", "[0]")), _VIEW)


def _nested_view(page: Edits) -> None:
    draw, h = page.draw, page.victim
    page.write_loss()
    outer, inner = draw.choice((("[1:]", "[0]"), ("[:3]", "[1:]"), ("[1:]", "[:2]"), (".view(2, 2)", "[0]")))
    name = page.name()
    change = page.method(name + inner) if draw.chance(0.6) else f"{name}{inner} = 0.1"
    guarded, start = page.is_leaf or draw.chance(0.4), len(page.lines) + 1
    with page.block("torch.no_grad()") if guarded else contextlib.nullcontext():
        line = page.write(f"{name} = {h}{outer}")
        at = page.write(change)
    page.edited = (start if guarded else at, at)
    page.edits(at, "backward")
    for what, (rule, copy) in _VIEW.items():
        page.says(what, line, rule.format(h=h), f"{name} = {h}{outer}{copy}")


def _numpy(page: Edits) -> None:
    _through(
        page,
        ".detach().numpy()",
        _NUMPY,
        lambda name: name + page.draw.choice((" *= 2", " += 1", "[0] = 0.1", "[:] = 0.1", "[1:] *= 3")),
    )


def _copy(page: Edits) -> None:
    start = ".detach()" if page.is_leaf else page.draw.choice(("", "", ".detach()"))
    # Each with what it is without the copy.
    calls = {".clone()": ""}
    if page.level == 2:
        calls = {".clone()": "", ".double()": "[:]", ".flip(0)": "[:]", "[[0, 1]]": "[:2]"}
    if page.level == 3:
        calls = {
            "[1:].clone()": "[1:]",
            ".flip(0)[1:]": "[1:]",
            "[[0, 1]]": "[:2]",
            ".double()[:2]": "[:2]",
            "[:2].clone()": "[:2]",
        }
    call = page.draw.choice(list(calls))
    rule = f"`{call}` makes a tensor with memory of its own: the edit changes nothing of `{page.victim}`"
    shared = start + calls[call] or ".detach()"
    _through(
        page,
        start + call,
        dict.fromkeys(("changed", "counted"), (rule, shared)),
        page.change if page.level == 2 else None,
    )
    line = page.effects[-1].line
    page.says("backward", line, rule, page.effects[-1].changes, RIGHT)


def _base(page: Edits) -> None:
    """An edit of the tensor itself, where another name stands for its memory or for a copy."""
    draw, h = page.draw, page.victim
    tail = draw.choice((".detach()", ".data", "[1:]", ".clone()", ".clone()", ".detach().clone()"))
    if not page.squares:
        page.write_loss()
    name = page.assign(h + tail)
    line = len(page.lines)
    if page.squares:
        page.write_loss()
    at = page.edit(page.method(h))
    page.edits(at, "backward", "changed", "counted")
    if tail.endswith("clone()"):
        rule = f"`.clone()` makes a tensor with memory of its own: the edit changes nothing of `{h}`"
        page.effect(line, rule, f"{name} = {h}.detach()", f"{name} changed")
    else:
        page.effect(line, _SHARES.format(h=h), f"{name} = {h}{tail}.clone()", f"{name} changed")


def _same(page: Edits) -> None:
    """A second name for the tensor itself."""
    page.write_loss()
    h = page.victim
    name = page.assign(h + page.draw.choice(("", ".float()", ".contiguous()", '.to("cpu")', ".requires_grad_()")))
    line = len(page.lines)
    page.edits(page.edit(page.change(name)), "backward")
    for what in ("changed", "counted"):
        rule = f"`{name}` and `{h}` are two names for one tensor: nothing is copied, and no view is made"
        page.says(what, line, rule, f"{page.lines[line - 1]} * 1")


def _rebound(page: Edits) -> None:
    """A second name that goes on to another tensor."""
    page.write_loss()
    h, name = page.victim, page.assign(page.victim)
    op = page.draw.choice(("* 2", "+ 1", "* 0.5", "- 3"))
    line = page.edit(f"{name} = {name} {op}")
    rule = f"This line makes a new tensor and gives it the name `{name}`; `{h}` stays as it was"
    page.alone(
        line,
        rule,
        f"{name} {op[0]}= {op[2:]}"
        if page.edited[0] < line or not page.is_leaf
        else f"with torch.no_grad(): {name} {op[0]}= {op[2:]}",
    )


def _put_back(page: Edits) -> None:
    """Other values, and then the old ones again, all of it counted."""
    page.write_loss()
    name = page.assign(f"{page.victim}.detach().clone()")
    with page.block("torch.no_grad()") as start:
        first = page.write(page.method(page.victim))
        last = page.write(f"{page.victim}.copy_({name})")
    page.edited, none = (start, last), {first: "pass", last: "pass"}
    back = "The values are those from before, but the version counter has moved, and backward looks at that alone"
    page.says("backward", start, f"{page.why}. {back}", none, ERROR, instead=f"Without lines {first} and {last}")
    page.says("changed", last, "`copy_` puts back the values from before the edit")
    counts = "An edit in place moves the version counter of the tensor, under `no_grad()` too"
    page.says("counted", start, counts, none, instead=f"Without lines {first} and {last}")


def _replaced(page: Edits) -> None:
    """Other values by way of an assignment to ``.data``."""
    page.write_loss()
    h = page.victim
    value = page.draw.choice((f"{h}.data * 2", f"{h}.data + 1", f"torch.zeros({page.size})", f"{h}.data / 4"))
    line = page.edit(f"{h}.data = {value}", guarded=False)
    rule = f"Setting `.data` gives `{h}` other memory, and "
    page.says("backward", line, f"{page.why}. {rule}backward finds the new values there", "pass", WRONG)
    page.says("changed", line, f"{page.why}. {rule}backward finds the new values there")
    page.says("counted", line, f"{rule}its version counter does not move", f"{h}.detach().copy_({value})")


def _step(page: Edits) -> None:
    """An optimizer's step between the forward and the backward pass."""
    draw, h = page.draw, page.victim
    kind = draw.choice(("SGD", "SGD", "Adam", "RMSprop"))
    name = page.assign(f"torch.optim.{kind}([{h}], lr=0.{1 + draw.below(9)})")
    page.write_loss()
    page.write(f"{h}.grad = torch.ones({page.size})")
    line = page.edit(f"{name}.step()", guarded=False)
    page.write(f"{name}.zero_grad()")
    page.edits(line, "backward")
    for what in ("changed", "counted"):
        page.says(
            what, line, "`step()` edits the parameter in place, under `no_grad()`, and that moves its version counter"
        )


def _elsewhere(page: Edits, tail: str = ".data[2:]") -> None:
    """An edit of elements that backward does not need."""
    page.write_loss()
    h, change = page.victim, page.draw.choice((".zero_()", ".mul_(2)", ".add_(1)"))
    line = page.edit(f"{h}{tail}{change}", guarded=None if tail == "[2:]" else False)
    if tail == "[2:]":
        rule = f"The edit changes other elements, but `{h}` and its views have one version counter in common, so backward refuses"
        page.says("backward", line, f"{page.why}. {rule}")
        page.says("changed", line, _SHARES.format(h=h), f"{h}[2:].clone(){change}")
        page.says("counted", line, _COUNTS.format(h=h), f"{h}[2:].clone(){change}")
    else:
        rule = f"The edit changes other elements than those, and `.data` moves no counter of `{h}`"
        page.says("backward", line, f"{page.why}. {rule}", f"{h}.data{change}")
        page.says("changed", line, _SHARES.format(h=h), f"{h}.data[2:].clone(){change}")
        page.says("counted", line, _OWN.format(h=h), f"{h}.detach()[2:]{change}")


def _undone(page: Edits) -> None:
    page.write_loss()
    h = page.victim
    there, back = page.draw.choice((("mul_(2)", "div_(2)"), ("mul_(4)", "div_(4)"), ("div_(2)", "mul_(2)")))
    name = page.assign(f"{h}.data")
    line = len(page.lines)
    page.edit(f"{name}.{there}", guarded=False)
    last = page.edit(f"{name}.{back}", guarded=False)
    rule = f"The second edit puts back exactly what the first one changed, and `.data` moves no counter of `{h}`"
    page.says("backward", last, rule)
    page.says("changed", last, rule)
    page.says("counted", line, _OWN.format(h=h), f"{name} = {h}.detach()")


# Ways to edit, by level, with their weights. Level 1: the tensor itself. Level 2: through another name for it, or for a
# part of it. Level 3: two edits, an optimizer's, and those that nobody counts.
_DETACH, _OF_DATA = (
    partial(_through, tail=".detach()", rules={w: (r, ".detach().clone()") for w, (r, _) in _VIEW.items()}),
    partial(_through, tail=".data", rules=_DATA),
)
_ROUTES: dict[int, dict[str, tuple[Callable[[Edits], None], float]]] = {
    1: {
        "plain": (_plain, 4),
        "no_grad": (partial(_plain, guarded=True), 2),
        "data": (_OF_DATA, 4),
        "copy": (_copy, 3),
        "not in place": (_not_in_place, 3),
        "before": (_before, 1),
    },
    2: {
        "view": (_view, 2),
        "detach": (_DETACH, 1.5),
        "data": (_OF_DATA, 3.5),
        "copy": (_copy, 4),
        "base": (_base, 2),
        "same": (_same, 2),
        "rebound": (_rebound, 2.5),
    },
    3: {
        "nested view": (_nested_view, 2),
        "numpy": (_numpy, 2.5),
        "elsewhere": (_elsewhere, 1.5),
        "elsewhere, counted": (partial(_elsewhere, tail="[2:]"), 1),
        "undone": (_undone, 2.5),
        "put back": (_put_back, 2),
        "replaced": (_replaced, 3),
        "step": (_step, 2.5),
        "copy": (_copy, 2),
    },
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    routes = _ROUTES[level]
    page = Edits(draw, level, draw.weighted({route: weight for route, (_, weight) in routes.items()}))
    page.forward()
    page.ask("backward", _ASKS, lambda outcome: f"`loss.backward()` {_SAYS[str(outcome)]}", OUTCOMES)
    routes[page.route][0](page)
    page.write("loss.backward()", run=False)
    _need(page)
    page.asks()
    return page.finish(partial(_read, page))


def _need(page: Edits) -> None:
    """Where backward needs nothing that is edited, the operation is why: one that needs it would be another matter."""
    name, _, text = page.lines[page.saver - 1].partition(" = ")
    needs = f"({text}).tanh()" if name == page.victim else f"({text}) * {page.victim}"
    rule = f"{page.why}, so the edit of `{page.victim}` does no harm"
    page.says("backward", page.saver, rule, f"{name} = {needs}", RIGHT, rank=MAKER)


def _read(page: Edits, lines: Sequence[str]) -> dict[str, Answer]:
    """Runs the program statement by statement, and looks at the victim before and after the edit."""
    names, found = space(), dict[str, Answer]()
    watched = [key.partition(" ")[0] for key in page.asked if " changed" in key]
    before: dict[str, tuple[torch.Tensor, int]] = {}
    *pieces, backward = statements(lines)
    torch.default_generator.manual_seed(0)
    for first, last, code in pieces:
        if first <= page.edited[0] <= last:
            before = {name: (names[name].detach().clone(), names[name]._version) for name in watched}
        exec(code, names)
        if first <= page.edited[1] <= last:
            for name, (values, version) in before.items():
                found[f"{name} changed"] = not torch.equal(names[name].detach(), values)
                found[f"{name} counted"] = names[name]._version > version
        if last == page.loss:
            # Now, because later edits can leave views behind that refuse to be asked.
            leaves = [t for t in names.values() if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad]
            right = _gradients(names["loss"], leaves)
    try:
        exec(backward[2], names)
        same = right is not None and all(map(_equal, (leaf.grad for leaf in leaves), right))
        return found | {"backward": RIGHT if same else WRONG}
    except RuntimeError:
        return found | {"backward": ERROR}


def _gradients(loss: torch.Tensor, leaves: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...] | None:
    """What backward would give now; None where it would raise."""
    try:
        return torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return None


def _equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is other if one is None or other is None else torch.equal(one, other)

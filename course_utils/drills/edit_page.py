"""A drill on in-place edits while it is written: its forward part, its edits, and its answers (``EditPage``)."""

from __future__ import annotations

from course_utils.drills.programs import RIGHT, Draw, Page, Reason

# What an operation keeps for backward follows from its derivative.
# https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml
_KEEP_INPUT = (("{h}.sin()", "sin"), ("{h}.cos()", "cos"), ("{h} ** 2", "**"), ("{h}.square()", "square"))
_KEEP_RESULT = (("{h}.exp()", "exp"), ("{h}.sigmoid()", "sigmoid"), ("{h}.tanh()", "tanh"), ("{h}.sqrt()", "sqrt"))
_KEEP_NOTHING = (
    ("{h} + 1", "+"),
    ("{h} * 3", "*"),
    ("-{h}", "-"),
    ("{h} / 2", "/"),
    ("4 * {h}", "*"),
    ("{h} - 0.2", "-"),
)
METHODS = ("mul_(2)", "add_(1)", "zero_()", "mul_(0.5)", "add_(0.5)", "mul_(3)")
# These have a reason of their own for a right gradient, so backward must need the edited tensor.
_NEED_IT = ("copy", "not in place", "before", "elsewhere", "elsewhere, counted", "undone", "rebound")


class EditPage(Page):
    """A program while it is written.

    Attributes:
        victim: the tensor that is edited, or seems to be.
        is_leaf: whether it is a leaf that requires grad, which only an unrecorded edit may change.
        needed: whether backward needs its values.
        saver: the line of the operation that keeps them, or would.
        why: what that operation keeps, in words.
        route: the way to edit.
        end: the tensor that the loss is made of.
    """

    def __init__(self, draw: Draw, level: int) -> None:
        super().__init__(draw)
        self.level = level
        self.size = 4 if level == 3 else draw.choice((3, 4, 5))
        self.victim, self.end, self.why, self.route = "", "", "", ""
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
        draw, self.route = self.draw, route
        self.needed = route in _NEED_IT or draw.chance(0.85)
        part = route.startswith("elsewhere")
        kinds = (
            ["input"] if part else ["input", "factor"] if route == "before" else ["input", "result", "factor", "loss"]
        )
        if not self.needed:
            kinds = ["sum", "result of input", "input of result"] + ["plain factor"] * (self.level > 1)
        if route in ("step", "replaced"):
            # An optimizer has leaves alone; a result that is kept is kept apart from what `.data` is set to.
            kinds = [kind for kind in kinds if kind in ("input", "factor", "sum", "input of result")]
        kind = draw.choice(kinds)
        # The leaves first, then what is computed from them.
        has_second = kind in ("factor", "plain factor") or (kind == "sum" and draw.chance(0.6))
        first = self.leaf()
        second = self.leaf(flag=kind != "plain factor") if has_second else ""
        direct = (
            kind in ("input", "factor", "sum", "input of result")
            and route != "base"
            and draw.chance(1.0 if route == "step" else 0.35)
        )
        inner = first if direct else self.middle(first)
        self.victim, self.is_leaf = inner, direct
        if kind in ("factor", "sum") and second and draw.chance(0.4):
            self.victim, self.is_leaf = second, True
        if route == "base" and self.is_leaf:
            self.victim, self.is_leaf = inner, False
        if route == "before":
            self.edit(self.change(self.victim), "before")
        self._operation(kind, inner, second, part)
        if self.level > 1 and not self.squares and draw.chance(0.3):
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
                only = f"`*` in line {self.saver} would need `{inner}` for the gradient of `{second}` alone"
                self.why = f"{only}, and `{second}` does not require grad"
        else:
            if second:
                op = draw.choice("+-") if kind == "loss" else "+"
                self.end = self.apply(f"{{a}} {op} {{b}}", a=inner, b=second)
            else:
                pattern, op = draw.choice(_KEEP_NOTHING)
                self.end = self.apply(pattern, h=inner)
            self.why = f"`{op}` in line {self.saver} needs no values in backward"
        if kind in ("result", "result of input", "loss") or (
            kind == "sum" and self.route != "step" and draw.chance(0.3)
        ):
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
        forms = [f"{target}.{self.draw.choice((*METHODS, 'fill_(0.3)', 'sub_(1)', 'div_(8)'))}", f"{target} += 1"]
        forms.append(f"{target} *= 2")
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
        """What is edited in the victim's place, and the line of the alias: a new name, or inline (0) at level 1."""
        if self.level > 1:
            name = self.name()
            return name, self.write(f"{name} = {self.victim}{tail}")
        return self.victim + tail, 0

    def through(self, tail: str) -> tuple[int, int]:
        """An edit through an alias; returns the line of the alias and that of the edit."""
        target, line = self.alias(tail)
        if line:
            change = self.change(target) if not tail.endswith("[0]") else f"{target}.{self.draw.choice(METHODS)}"
            return line, self.edit(change, guarded=False)
        at = self.edit(f"{target}.{self.draw.choice(METHODS)}", guarded=False)
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

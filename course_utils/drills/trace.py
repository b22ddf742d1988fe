"""Follows what autograd records while a drill's program is written (``Trace``), so that each answer comes with the line
that decides it. Nothing is run here: a check compares with PyTorch itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from course_utils.drills.programs import Draw, Page, Reason, listed

LATE = -1  # what blocks the way to a tensor whose flag was raised after its use


@dataclass(eq=False)
class Value:
    """A tensor of the program, as a name stands for it.

    Attributes:
        name: its token.
        flag: whether it requires grad.
        leaf: whether it is a leaf.
        why_flag: why it requires grad or not.
        why_leaf: why it is a leaf or not.
        shape: its shape.
        kind: its dtype: "f32", "f64", "int" or "bool".
        view: whether it is a view.
        fresh: whether nothing else uses it or its memory yet, so that it may be edited in place.
        made: whether a line creates it, rather than computing it from others.
        line: the line after which its name stands for it.
        shared: whether a second name stands for it.
        sources: the tensors it was computed from, each with the line that blocks a gradient's way there, or 0.
        retained: why its gradient is kept though it is no leaf.
    """

    name: str
    flag: bool
    leaf: bool
    why_flag: Reason
    why_leaf: Reason
    shape: tuple[int, ...]
    kind: str = "f32"
    view: bool = False
    fresh: bool = True
    made: bool = False
    line: int = 0
    shared: bool = False
    sources: list[tuple[Value, int]] = field(default_factory=list)
    retained: Reason | None = None

    @property
    def is_float(self) -> bool:
        return self.kind in ("f32", "f64")


class Trace(Page):
    """A program of straight lines and ``with`` blocks while it is written, and what autograd records of it.

    Attributes:
        values: what each name stands for, in the order of first appearance.
        size: the length of the program's vectors.
        second_names: names that stand for a tensor which had a name already, and why they do.
    """

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.values: dict[str, Value] = {}
        self.size = draw.choice((3, 4, 5))
        self._modes: list[tuple[bool, int]] = []
        self._viewed: set[str] = set()
        self.second_names: dict[str, Reason] = {}

    # Modes.

    @property
    def recording(self) -> bool:
        return not self._modes or self._modes[-1][0]

    @contextmanager
    def mode(self, on: bool) -> Iterator[int]:
        with self.block(f"with torch.{'enable_grad' if on else 'no_grad'}():") as line:
            self._modes.append((on, line))
            try:
                yield line
            finally:
                self._modes.pop()

    @property
    def nested(self) -> int:
        """How many blocks are open."""
        return len(self._modes)

    # Tensors.

    def viewed(self, value: Value) -> bool:
        """Whether views of it were made: their flags follow its own, so it is left alone."""
        return value.name in self._viewed

    def create(self, expression: str, rule: str, *, flag: bool, computed: bool = False, kind: str = "f32") -> Value:
        """A vector made from nothing. ``computed``: the line goes on and computes with it, so it is no leaf."""
        name = self.name()
        line = self.write(f"{name} = {expression}")
        why_leaf = Reason(line, "computed at once" if computed else "created")
        value = Value(name, flag, not computed, Reason(line, rule), why_leaf, (self.size,), kind, made=not computed)
        return self._bind(value)

    def operate(
        self,
        expression: str,
        operands: Sequence[Value],
        shape: tuple[int, ...],
        kind: str = "",
        *,
        view: bool = False,
        into: str = "",
    ) -> Value:
        """The result of a differentiable operation. ``into`` is an existing name that shall stand for it."""
        name = into or self.name()
        line = self.write(f"{name} = {expression}")
        flag, why = self.recorded(line, operands)
        if not kind:
            kind = "f64" if any(value.kind == "f64" for value in operands) else "f32"
        made = Value(name, flag, not flag, why, why, shape, kind, view=view, fresh=not view)
        if view:
            self._viewed.update(value.name for value in operands)
            if not self.recording and operands[0].flag:
                # A view answers for its base, although no history leads there.
                # https://github.com/pytorch/pytorch/issues/11390
                made.flag, made.why_flag = True, Reason(line, "view", {"source": f"`{operands[0].name}`"})
        self._use(made, operands, 0 if self.recording else self._modes[-1][1])
        return self._bind(made)

    def cut(self, expression: str, source: Value, rule: str, shape: tuple[int, ...], kind: str, shares: bool) -> Value:
        """The result of an operation that leaves the history behind, on a tensor that requires grad."""
        name = self.name()
        line = self.write(f"{name} = {expression}")
        why = Reason(line, rule, {"source": f"`{source.name}`"}, cuts=True)
        made = Value(name, False, True, why, why, shape, kind, fresh=not shares)
        self._use(made, [source], line)
        return self._bind(made)

    def same(self, call: str, value: Value) -> None:
        """A second name for a tensor: the result of a call that has nothing to convert."""
        name = self.name()
        line = self.write(f"{name} = {value.name}{call}")
        value.shared, value.fresh = True, False
        self.values[name] = value
        self.second_names[name] = Reason(line, "same object", {"call": call, "source": f"`{value.name}`"})

    def parameter(self, expression: str, source: Value) -> Value:
        """``nn.Parameter`` of something computed from ``source``."""
        name = self.name()
        line = self.write(f"{name} = nn.Parameter({expression})")
        why = Reason(line, "parameter of")
        made = Value(name, True, True, why, why, source.shape, source.kind)
        self._use(made, [source], line)
        return self._bind(made)

    def call(self, layer: str, source: Value, flag: bool, why: Reason | None, features: int) -> Value:
        """The result of a layer. ``why`` is None where the input alone decides."""
        name = self.name()
        line = self.write(f"{name} = {layer}({source.name})")
        if why is None:
            flag, why = self.recorded(line, [source])
        made = Value(name, flag, not flag, why, why, (features,))
        self._use(made, [source], 0 if self.recording else self._modes[-1][1])
        return self._bind(made)

    def write_into(self, text: str, target: Value, source: Value) -> None:
        """An in-place edit of ``target`` that uses ``source``."""
        line = self.write(text)
        if not source.flag:
            self._use(target, [source], 0)
            return
        if self.recording:
            flag, why = True, Reason(line, "written", {"source": f"`{source.name}`", "target": f"`{target.name}`"})
        else:
            flag, why = False, Reason(self._modes[-1][1], "unrecorded write", {"write": str(line)}, cuts=True)
        made = Value(target.name, flag, not flag, why, why, target.shape, target.kind)
        self._use(made, [target, source], 0 if self.recording else self._modes[-1][1])
        made.fresh = True
        self._bind(made)

    def raise_flag(self, value: Value) -> None:
        """``requires_grad_()`` on a tensor that does not require grad: what was computed from it stays as it is."""
        line = self.write(f"{value.name}.requires_grad_()")
        value.flag, value.why_flag = True, Reason(line, "raised later")
        for user in self.values.values():
            if any(source is value for source, _ in user.sources):
                user.sources = [(source, LATE if source is value else block) for source, block in user.sources]
                late = {"raised": str(line), "operands": f"`{value.name}`"}
                if user.why_flag.rule == "none":
                    user.why_flag = user.why_leaf = Reason(user.why_flag.line, "late", late)

    def lower_flag(self, value: Value) -> None:
        """``requires_grad_(False)`` on a leaf."""
        line = self.write(f"{value.name}.requires_grad_(False)")
        value.flag, value.why_flag = False, Reason(line, "lowered", cuts=True)

    def detach_in_place(self, value: Value) -> None:
        """``detach_()`` on a tensor with history that is no view."""
        line = self.write(f"{value.name}.detach_()")
        why = Reason(line, "detach_", cuts=True)
        made = Value(value.name, False, True, why, why, value.shape, value.kind, fresh=False)
        made.sources.append((value, line))
        self._bind(made)

    def recorded(self, line: int, operands: Sequence[Value]) -> tuple[bool, Reason]:
        """Whether an operation on this line is recorded, and why."""
        flagged = [value for value in operands if value.flag]
        if flagged and self.recording:
            if self._modes and any(not on for on, _ in self._modes):
                return True, Reason(self._modes[-1][1], "enabled", {"at": str(line)})
            return True, Reason(line, "any", _with_verb("carriers", flagged))
        if flagged:
            return False, Reason(self._modes[-1][1], "no_grad", {"at": str(line)}, cuts=True)
        return False, self._nothing(line, operands)

    def _nothing(self, line: int, operands: Sequence[Value]) -> Reason:
        reason = self.only_cut(operands)
        if reason is not None:
            return reason.passed_on(line)
        return Reason(line, "none", _with_verb("operands", operands))

    @staticmethod
    def only_cut(operands: Sequence[Value]) -> Reason | None:
        """The one line without which an operation on unflagged operands would be recorded, if there is just one."""
        cuts = {(value.why_flag.line, value.why_flag.rule): value.why_flag for value in operands if value.why_flag.cuts}
        return next(iter(cuts.values())) if len(cuts) == 1 else None

    def decidable(self, operands: Sequence[Value]) -> bool:
        """Whether one line alone decides what an operation on these operands gives here."""
        if self.recording or any(value.flag for value in operands):
            return True
        cut = self.only_cut(operands)
        return cut is not None and cut.line == self._modes[-1][1]

    def _use(self, made: Value, operands: Sequence[Value], block: int) -> None:
        for value in operands:
            value.fresh = False
            if value.is_float:
                made.sources.append((value, block))

    def _bind(self, value: Value) -> Value:
        value.line = len(self.lines)
        self.values[value.name] = value
        return value

    def reached(self, start: Value, goal: Value, without: int = 0) -> bool:
        """Whether a gradient comes from ``start`` to ``goal``, were the line ``without`` not to block its way."""
        if start is goal:
            return True
        return any(block in (0, without) and self.reached(source, goal, without) for source, block in start.sources)


def _with_verb(role: str, values: Sequence[Value]) -> dict[str, str]:
    names = list(dict.fromkeys(value.name for value in values))
    return {role: listed(names), "verb": "does" if len(names) == 1 else "do"}

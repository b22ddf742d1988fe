"""A drill on hooks while it is written, and what each of its hooks has seen at its end (``HookPage``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from course_utils.drills.programs import Draw, Page, Reason

NOTHING = "nothing"
KEYS = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Module:
    """A module that makes a number of a number: how it is written, what it does, its slope, and where that jumps."""

    text: str
    value: Callable[[float], float]
    slope: Callable[[float], float]
    kinks: tuple[float, ...] = ()


MODULES = (
    Module("nn.ReLU()", lambda x: max(x, 0.0), lambda x: float(x > 0), (0.0,)),
    Module("nn.LeakyReLU(0.5)", lambda x: x if x > 0 else x / 2, lambda x: 1.0 if x > 0 else 0.5, (0.0,)),
    Module("nn.LeakyReLU(2.0)", lambda x: x if x > 0 else x * 2, lambda x: 1.0 if x > 0 else 2.0, (0.0,)),
    Module("nn.Hardtanh()", lambda x: min(max(x, -1.0), 1.0), lambda x: float(-1 < x < 1), (-1.0, 1.0)),
    Module("nn.ReLU6()", lambda x: min(max(x, 0.0), 6.0), lambda x: float(0 < x < 6), (0.0, 6.0)),
    Module("nn.Threshold(1.5, 8.0)", lambda x: x if x > 1.5 else 8.0, lambda x: float(x > 1.5), (1.5,)),
    Module("nn.Identity()", lambda x: x, lambda x: 1.0),
)
IN_PLACE = Module("nn.ReLU(inplace=True)", MODULES[0].value, MODULES[0].slope)


@dataclass(eq=False)
class Hook:
    """One hook.

    Attributes:
        key: the key under which it notes what it sees; empty where it changes what passes.
        place: the number of the tensor that it sees: 0 is the input, 1 the first module's result.
        owner: the module that has it, or -1 for the net; None for a tensor's.
        line: the line that registers it.
        factor: what it multiplies by; 1 where it only looks.
        after: whether it is registered after the run.
        removed: the line that removes it, or 0.
        leaf: whether it waits for `.grad` of the input.
        handle: the name of its handle, if it has one.
    """

    key: str
    place: int
    owner: int | None
    line: int
    factor: float = 1.0
    after: bool = False
    removed: int = 0
    leaf: bool = False
    handle: str = ""


class HookPage(Page):
    """A program while it is written.

    Attributes:
        modules: its modules, in the order in which the input passes them.
        stages: their names, as tokens.
        hooks: all hooks, in the order in which they are registered.
        start: the input's value.
        called: what is called as a module; -1 is the net.
        run_line: the line that runs the net, or its backward pass.
    """

    def __init__(self, draw: Draw, level: int) -> None:
        super().__init__(draw)
        self.level = level
        self.modules: list[Module] = []
        self.stages: list[str] = []
        self.hooks: list[Hook] = []
        self.start = 0.0
        self.called: set[int] = set()
        self.run_line = 0
        self.made_line = 0
        self.write("seen = {}")

    # Lines.

    def build(self, net: bool, edits: bool = False) -> None:
        """The modules, and a net of them. ``edits``: the second one works in place."""
        draw = self.draw
        # An identity hands on its very input: what is edited would be that, too, and its hooks would be the input's.
        first = draw.choice(MODULES[: -1 if edits or not net else None])
        self.modules = [first, IN_PLACE if edits else draw.choice(MODULES[:-1])]
        self.stages = [self.name(), self.name()]
        self.made_line = self.write(f"{', '.join(self.stages)} = {', '.join(module.text for module in self.modules)}")
        if net:
            self.write(f"net = nn.Sequential({', '.join(self.stages)})")

    def pick_start(self) -> str:
        """The input's value, as it is written."""
        self.start = self.draw.choice((-1, 1)) * (2 + self.draw.below(14)) / 2
        return str(self.start)

    @property
    def smooth(self) -> bool:
        """Whether no module has to say what its slope is where that jumps."""
        return not any(value in module.kinks for value, module in zip(self.values(), self.modules, strict=False))

    def keyed(self, text: str, hook: Hook, handle: bool = False) -> Hook:
        """Registers a hook; ``text`` is the line up to the key's name, with the rest after it."""
        if handle:
            hook.handle = self.name()
            text = f"{hook.handle} = {text}"
        hook.line = self.write(text)
        self.hooks.append(hook)
        return hook

    def next_key(self) -> str:
        return KEYS[sum(bool(hook.key) for hook in self.hooks)]

    def forward_hook(self, owner: int, before: bool, after: bool = False, handle: bool = False) -> Hook:
        """A hook that notes what goes into a module, or comes out of it."""
        key, name = self.next_key(), "net" if owner < 0 else self.stages[owner]
        place = (0 if owner < 0 else owner) if before else (len(self.stages) if owner < 0 else owner + 1)
        if before:
            text = f"{name}.register_forward_pre_hook(lambda _, args: seen.update({key}=args[0]))"
        else:
            text = f"{name}.register_forward_hook(lambda _, args, out: seen.update({key}=out))"
        return self.keyed(text, Hook(key, place, owner, 0, after=after), handle)

    def forward_change(self, owner: int, before: bool, factor: int) -> Hook:
        """A hook that puts another number in the place of what passes."""
        name = self.stages[owner]
        if before:
            text = f"{name}.register_forward_pre_hook(lambda _, args: args[0] * {factor})"
        else:
            text = f"{name}.register_forward_hook(lambda _, args, out: out * {factor})"
        return self.keyed(text, Hook("", owner + (not before), owner, 0, float(factor)))

    def remove(self, hook: Hook) -> None:
        hook.removed = self.write(f"{hook.handle}.remove()")

    # What happens.

    def values(self, without: Hook | None = None) -> list[float]:
        """The number at each place, with every change that a hook makes on the way, or with one left out."""
        at = [self._changed(0, self.start, without)]
        for number, module in enumerate(self.modules):
            at.append(self._changed(number + 1, module.value(at[-1]), without))
        return at

    def _changed(self, place: int, value: float, without: Hook | None) -> float:
        for hook in self.hooks:
            if hook.owner is not None and hook.place == place and hook is not without:
                value *= hook.factor
        return value

    def seen(self, hook: Hook, without: Hook | None = None) -> float:
        """What a forward hook sees: the hooks that were registered later for the same place come after it."""
        value = self.start
        for place in range(hook.place + 1):
            if place:
                value = self.modules[place - 1].value(value)
            for other in self.hooks:
                if other.place == place and other is not without and (place < hook.place or self._earlier(other, hook)):
                    value *= other.factor
        return value

    def _earlier(self, one: Hook, other: Hook) -> bool:
        """Whether one hook runs before another at the same place."""
        if one.owner == other.owner:
            return one.line < other.line
        # What comes out of a module goes through its hooks, then into the next one's; the net's own are outermost.
        if other.owner == -1:
            return other.place > 0
        return one.owner is not None and other.owner is not None and one.owner < other.owner


def shown(value: float) -> str:
    """A number as it is answered."""
    return format(value + 0.0, "g")


def choices(right: str, values: list[float], draw: Draw) -> tuple[str, ...]:
    """The right answer and up to three other numbers, in order, and that nothing is seen."""
    others = [text for text in dict.fromkeys(map(shown, values)) if text != right]
    texts = {right, *draw.sample(others, min(3, len(others)))} - {NOTHING}
    return (*sorted(texts, key=float), NOTHING)


def reason(line: int, rule: str, **facts: str) -> Reason:
    return Reason(line, rule, facts)

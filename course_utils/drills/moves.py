"""Lines on tensors that drills on flags, leaves and modes are put together from (``Tensors``).

A move writes one or a few lines that PyTorch accepts where the program stands and returns True, or writes nothing and
returns False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from course_utils.drills.programs import CAUSE, MAKER, TOKEN, TRAP, Draw, Page, Refused, listed

_ALONE = tuple(f"{{x}}.{call}()" for call in "exp sin cos tanh sigmoid abs round clone".split())
_ALONE += ("{x} * {k}", "{k} * {x}", "{x} + {k}", "{x} / {k}", "{x} ** 2", "-{x}", "{k} - {x}", "torch.relu({x})")
_ALONE += ("{x}.cumsum(0)", "{x}.softmax(0)", "{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.norm()")
_PAIRS = ("{x} * {y}", "{x} + {y}", "{x} - {y}", "torch.maximum({x}, {y})", "torch.where({x} > 0, {x}, {y})")
_VECTORS = ("{x} @ {y}", "torch.cat([{x}, {y}])", "torch.stack([{x}, {y}])")
_TRIPLES = ("{x} * {y} + {z}", "({x} - {y}) * {z}")
_VIEWS = ("[0]", "[1:]", "[:2]", "[-1]", ".view(-1, 1)", ".unsqueeze(0)", ".reshape(1, -1)")
_WRITES = (
    "{t}[0] = {s}[0]",
    "{t}[1:] = {s}[1:]",
    "{t} += {s}",
    "{t}.add_({s})",
    "{t}.copy_({s})",
    "{t}[0] = {s}.sum()",
)
_NEW, _ASKS = "A new tensor does not require grad unless you ask for it", "requires_grad=True)"
_ASKED = "The flag is asked for when the tensor is made, and nothing lowers it later"


class Tensors(Page):
    """A program on vectors. What a tensor is like is asked of the tensor itself.

    Attributes:
        size: the length of its vectors.
        created: the tensors that a line creates, rather than computing them from others.
        viewed: those that have views: their flags follow its own, so it is left alone.
    """

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.size = draw.choice((3, 4, 5))
        self.created: list[str] = []
        self.viewed: list[str] = []

    # What is there.

    def tensors(self) -> dict[str, torch.Tensor]:
        found = {name: value for name, value in self.space.items() if TOKEN.fullmatch(name)}
        return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}

    def floats(self, flagged: bool | None = None) -> list[str]:
        """The names of tensors that could require grad, one for each tensor."""
        first: dict[int, str] = {}
        for name, value in self.tensors().items():
            if value.is_floating_point() and flagged in (None, value.requires_grad):
                first.setdefault(id(value), name)
        return list(first.values())

    def fresh(self, name: str) -> bool:
        """Whether no line has used the tensor yet."""
        return sum(name in line for line in self.lines) == 1

    def pick(self, names: Sequence[str]) -> str:
        """One of the names, unused tensors before the others, and the newest before older ones."""
        if not names:
            raise Refused("there is no such tensor")
        return self.draw.weighted({name: 4.0 if self.fresh(name) else 1 + at / 4 for at, name in enumerate(names)})

    def take(self, moves: Moves) -> None:
        """Takes one of the moves, drawn by weight among those that are possible here."""
        left = dict(moves)
        while left:
            move = self.draw.weighted(left)
            if _done(move, self):
                return
            del left[move]
        raise Refused("no move is possible")

    # Writing.

    def factory(self) -> str:
        """A call that makes a float vector."""
        n, draw = self.size, self.draw
        calls = [f"torch.{name}({n})" for name in ("ones", "rand", "randn", "zeros")]
        calls += [f"torch.full(({n},), {draw.choice(('0.5', '1.5', '2.0', '3.0'))})"]
        calls += [f"torch.arange({n}.0)", f"torch.linspace(0, 1, {n})"]
        if n == 3:
            calls.append(f"torch.tensor([{', '.join(draw.sample(('0.5', '1.0', '1.5', '2.0', '3.0'), 3))}])")
        return draw.choice(calls)

    def create(self, text: str, rule: str, without: str) -> str:
        name = self.name()
        self.made(name, text, rule, without)
        self.created.append(name)
        return name

    def flagged(self) -> str:
        """A new vector that requires grad."""
        call = self.factory()
        asking = f"{call[:-1]}, {_ASKS}" if self.draw.chance(0.75) else f"{call}.requires_grad_()"
        return self.create(asking, _ASKED, call)

    def plain(self) -> str:
        """A new vector that does not require grad."""
        call = self.factory()
        return self.create(call, _NEW, f"{call[:-1]}, {_ASKS}")

    def number(self) -> str:
        return self.draw.choice(("2", "3", "4", "5", "0.5", "10"))

    def operate(self, text: str, operands: Sequence[str], name: str = "") -> str:
        """The result of an operation: it is recorded, where it is, because an operand requires grad."""
        flags = [operand for operand in operands if self.space[operand].requires_grad]
        names = dict.fromkeys(flags or operands)
        verb = "does" if len(names) == 1 else "do"
        if flags:
            rule = f"An operation is recorded as soon as one operand requires grad, and {listed(flags)} {verb} here"
            swap = {operand: f"{operand}.detach()" for operand in names}
        else:
            rule = f"An operation is recorded only if an operand requires grad, and {listed(operands)} {verb} not"
            swap = {operands[0]: f"{operands[0]}.detach().requires_grad_()"}
        name = name or self.name()
        self.made(name, text, rule, TOKEN.sub(lambda match: swap.get(match[0], match[0]), text))
        return name

    def compute(self, flagged: bool, others: bool | None) -> None:
        """An operation on a tensor whose flag is ``flagged``, alone or with others whose flag is ``others``."""
        draw, x = self.draw, self.pick(self.floats(flagged))
        shape = self.space[x].shape
        fits = [name for name in self.floats(others) if name != x and self.space[name].shape in (shape, ())]
        masks = [name for name, value in self.tensors().items() if not value.is_floating_point()]
        operands, texts = [x], _ALONE
        if masks and draw.chance(0.5):
            operands, texts = [x, masks[-1]], _PAIRS[:1]
        elif len(fits) >= 2 and draw.chance(0.2):
            operands, texts = [x, *draw.sample(fits, 2)], _TRIPLES
        elif fits and draw.chance(0.6):
            operands, texts = draw.sample([x, draw.choice(fits)], 2), _VECTORS if draw.chance(0.25) else _PAIRS
        self.operate(draw.choice(texts).format(**dict(zip("xyz", operands, strict=False)), k=self.number()), operands)

    @contextmanager
    def within(self, context: str, rule: str) -> Iterator[int]:
        """A block whose context is what it says in the rule."""
        with self.block(context) as line:
            self.effect(line, rule, "if True:")
            yield line


Step = Callable[[Tensors], object]
Moves = Mapping[Step, float]


def _done(move: Step, page: Tensors) -> bool:
    length = len(page.lines)
    try:
        move(page)
    except Refused:
        if len(page.lines) > length:  # half of it stands there
            raise
        return False
    return True


@dataclass(frozen=True)
class Move:
    """A line on one tensor, with its rule.

    Attributes:
        texts: ways to write it, ``{x}`` for the tensor.
        rule: what it does, in words.
        without: the same without that effect.
        on: which tensor it takes: "flagged", "plain", with "created", "unviewed", "computed" or "fresh" besides.
        rank: ``CAUSE``, or ``MAKER`` where it can decide about its own result alone.
        binds: whether its result gets a new name; else ``texts`` is a statement.
    """

    texts: tuple[str, ...]
    rule: str
    without: str
    on: str = "flagged"
    rank: int = CAUSE
    binds: bool = True

    def __call__(self, page: Tensors) -> None:
        names = [
            name
            for name in page.floats({"flagged": True, "plain": False}.get(self.on.split()[0]))
            if self._fits(page, name)
        ]
        x, text = page.pick(names), page.draw.choice(self.texts)
        fill = {"x": x, "call": text.removeprefix("{x}")}
        written, without, rule = (part.format(**fill) for part in (text, self.without, self.rule))
        if not self.binds:
            page.effect(page.write(written), rule, without)
        elif self.rank == MAKER:
            page.made(page.name(), written, rule, without)
        else:
            name = page.name()
            page.effect(page.write(f"{name} = {written}"), rule, f"{name} = {without}")

    def _fits(self, page: Tensors, name: str) -> bool:
        checks = {"created": name in page.created, "unviewed": name not in page.viewed, "fresh": page.fresh(name)}
        checks["computed"] = not page.space[name].is_leaf
        return all(checks.get(word, True) for word in self.on.split())


def compute_flagged(page: Tensors) -> None:
    page.compute(True, None)


def compute_plain(page: Tensors) -> None:
    page.compute(False, False)


def compute_from_positions(page: Tensors) -> None:
    """Back to floats from a tensor of integers or truth values."""
    x = page.pick([name for name, value in page.tensors().items() if not value.is_floating_point()])
    page.operate(page.draw.choice(("{x}.float()", "{x} * 0.5", "{x} / 2", "{x} + 0.5")).format(x=x), [x])


def compute_again(page: Tensors) -> None:
    """An operation whose result takes the name of its operand."""
    x = page.pick([name for name in page.floats(True) if page.space[name].is_leaf])
    text = page.draw.choice(("{x} * {k}", "{x} / {k}", "{x} + {k}", "{x} - {k}"))
    page.operate(text.format(x=x, k=page.number()), [x], x)


def create_flagged(page: Tensors) -> None:
    page.flagged()


def create_plain(page: Tensors) -> None:
    page.plain()


def create_parameter(page: Tensors) -> None:
    call = page.factory()
    page.create(f"nn.Parameter({call})", "`nn.Parameter` raises the flag by itself", call)


def create_frozen_parameter(page: Tensors) -> None:
    call = f"nn.Parameter(torch.ones({page.size}))"
    rule = "`nn.Parameter` raises the flag unless `requires_grad=False` says otherwise"
    page.create(f"{call[:-1]}, requires_grad=False)", rule, call)


def view(flagged: bool) -> Step:
    def move(page: Tensors) -> None:
        x = page.pick([name for name in page.floats(flagged) if page.space[name].shape[:1] > (2,)])
        name = page.operate(x + page.draw.choice(_VIEWS), [x])
        page.viewed.append(x)
        if flagged and not torch.is_grad_enabled():
            # https://github.com/pytorch/pytorch/issues/11390
            text = page.lines[-1].split(" = ")[1]
            rule = (
                f"A view answers for its base, also where nothing is recorded: `{x}` requires grad, and so the view says it "
                "does, though it has no history"
            )
            page.effects = page.effects[:-1]
            page.effect(len(page.lines), rule, f"{name} = {text}.clone()", name, rank=MAKER)

    return move


view_flagged, view_plain = view(True), view(False)


def write_into(page: Tensors) -> None:
    """Writes a tensor that requires grad into one that does not, recorded or not."""
    space = page.space
    targets = [name for name in page.floats(False) if name in page.created and page.fresh(name)]
    pairs = [
        (t, s) for t in targets for s in page.floats(True) if space[s].dim() == 1 and space[s].shape == space[t].shape
    ]
    if not pairs:
        raise Refused("nothing can be written anywhere")
    t, s = page.draw.choice(pairs)
    was = torch.is_grad_enabled()
    line = page.write(page.draw.choice(_WRITES).format(t=t, s=s))
    if was:
        page.effect(line, f"Writing `{s}` into `{t}` in place is recorded: `{t}` now hangs on the history of `{s}`")
        return
    mode = next(effect for effect in reversed(page.effects) if effect.changes[effect.line] == "if True:")
    rule = f"Under `no_grad()` the edit in line {line} changes the values and is not recorded"
    page.effects.append(replace(mode, rule=rule, about=t))


def raise_flag(page: Tensors) -> None:
    """Raises the flag of a leaf: what was computed from it before stays as it is."""
    x = page.pick([name for name in page.floats(False) if name in page.created and name not in page.viewed])
    before = list(enumerate(page.lines, 1))
    line = page.write(f"{x}.requires_grad_()")
    page.effect(line, "`requires_grad_()` raises the flag of the tensor itself")
    for number, text in before:
        name, _, used = text.strip().partition(" = ")
        if x in used:
            late = (
                f"When this line ran, `{x}` did not require grad, so nothing was recorded. Raising the flag in line {line} "
                "changes nothing that was computed before"
            )
            page.effect(
                number, late, f"{name} = {used.replace(x, f'{x}.detach().requires_grad_()', 1)}", name, rank=TRAP
            )


def block(*bodies: Moves) -> Step:
    """A ``no_grad`` block, with an ``enable_grad`` block in it where there is a second body.

    Args:
        bodies: the moves for each depth, with their weights.
    """

    def move(page: Tensors) -> None:
        if page.depth or not page.floats(True):
            raise Refused("no place for a block")
        with page.within("torch.no_grad()", "Nothing that is computed under `no_grad()` is recorded"):
            outside_first = len(bodies) == 1 or page.draw.chance(0.5)
            if outside_first:
                page.take(bodies[0])
            if len(bodies) > 1:
                with page.within(
                    "torch.enable_grad()", "`enable_grad()` switches recording on again, also inside `no_grad()`"
                ):
                    page.take(bodies[1])
                if not outside_first or page.draw.chance(0.4):
                    page.take(bodies[0])

    return move


def layer(flagged: bool, between: str = "") -> Step:
    """A layer on an input whose flag is ``flagged``, with a line before its call."""

    def move(page: Tensors) -> None:
        inputs = [name for name in page.floats(flagged) if page.space[name].dim() == 1]
        x = page.pick([name for name in inputs if page.space[name].dtype == torch.float32])
        if page.depth or "layer" in page.space:
            raise Refused("no place for a layer")
        page.write(f"layer = nn.Linear({len(page.space[x])}, {page.draw.choice((1, 2, 3))})")
        line = page.write(between) if between else 0
        name = page.operate(f"layer({x})", [x])
        freeze = "layer.requires_grad_(False)"
        if between == freeze and not flagged:
            rule = (
                "`requires_grad_(False)` lowers the flag of every parameter of the layer, and the input passes none on"
            )
            page.effect(line, rule)
        elif between != freeze:
            rule = "The parameters of a layer require grad, so its output does, whatever its input"
            if between:
                rule = "`layer.requires_grad = False` sets an attribute that nobody reads: the parameters still require grad"
            page.effects = [effect for effect in page.effects if (effect.about, effect.rank) != (name, MAKER)]
            changes = {line: freeze} if line else {len(page.lines): f"{freeze}\n{name} = layer({x})"}
            page.effect(
                line or len(page.lines),
                rule,
                changes,
                name,
                rank=MAKER,
                instead="" if line else f"With `{freeze}` before it",
            )

    return move


_OUTSIDE = "gives a tensor outside the graph, on the values of `{x}`"
_CUTS = {
    ("{x}.detach()", "{x}.detach()", "{x}.detach().clone()"): "`detach()` " + _OUTSIDE,
    ("{x}.data",): "`.data` " + _OUTSIDE,
    (
        "torch.tensor({x}.tolist())",
    ): "The values go through Python numbers, which carry no history; `torch.tensor` makes a new tensor of them",
    (
        "torch.ones_like({x})",
        "torch.zeros_like({x})",
    ): "Only shape and dtype are taken from `{x}`: the result is a new tensor",
    (
        "{x} > 0",
        "{x} < 1",
    ): "A comparison gives truth values, and only floating-point and complex tensors can require grad",
    ("{x}.long()", "{x}.int()"): "Integers cannot require grad, so the conversion ends the history of `{x}`",
    ("{x}.argmax()", "{x}.argmin()"): "A position is an integer and has no gradient, so the history of `{x}` ends here",
}
CUTS = tuple(
    Move(texts, rule, "{x}.sum()" if "arg" in texts[0] else "{x}.clone()")
    for texts, rule in _CUTS.items()
    for _ in texts
)
detach = Move(("{x}.detach()",), CUTS[0].rule, "{x}.clone()")


def cut(page: Tensors) -> None:
    """An operation that leaves the history behind, on a tensor that requires grad."""
    page.draw.choice(CUTS)(page)


lower_flag = Move(
    ("{x}.requires_grad_(False)",),
    "`requires_grad_(False)` lowers the flag of a leaf, from this line on",
    "pass",
    "flagged created unviewed",
    binds=False,
)
detach_in_place = Move(
    ("{x}.detach_()",),
    "`detach_()` takes the tensor itself out of the graph",
    "pass",
    "flagged computed fresh",
    binds=False,
)
_PARAMETER = "`nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad"
_OF = tuple(f"nn.Parameter({text})" for text in ("{x}.exp()", "{x} * 2", "{x}.clone()", "{x} + 1", "{x}.abs()"))
parameter_of = Move(_OF, _PARAMETER, "{x}.detach() * 2", "any", MAKER)
parameter_of_leaf = Move(_OF, _PARAMETER, "nn.Parameter({x}) * 2", "any", MAKER)
convert_nothing = Move(
    ("{x}.cpu()", "{x}.float()", "{x}.contiguous()", '{x}.to("cpu")'),
    "`{call}` has nothing to convert, so it returns the very object that `{x}` stands for",
    "{x} * 1",
    "flagged created",
    MAKER,
)


def convert(page: Tensors) -> None:
    """Another dtype: recorded like any operation."""
    x = page.pick([name for name in page.floats(True) if page.space[name].dtype == torch.float32])
    page.operate(f"{x}.double()", [x])


def create_computed(page: Tensors) -> None:
    """A line that creates a tensor that requires grad and goes on computing."""
    call = f"{page.factory()[:-1]}, {_ASKS}"
    tail = page.draw.choice((" * 2", " / 10", " + 1", ".double()", ".double()", ".exp()", ".clone()"))
    rule = (
        "The name stands for the result of the whole line, whose last operation is recorded; the tensor that asked for the "
        "flag is the one before it"
    )
    page.made(page.name(), call + tail, rule, call)

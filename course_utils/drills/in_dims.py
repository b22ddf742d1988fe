"""Drills on the ``in_dims`` of ``torch.vmap``: which of them does the work of this loop? (``write``)

All sizes of a program are equal, so that shapes give nothing away and what is wrong mostly runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_utils.drills.programs import Draw, Page, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer

IN_DIMS = "IN_DIMS"  # what a key stands for in the program
Dims = tuple[int | None, ...]

_FUNCTIONS = ("mix", "score", "blend", "join", "step", "apply")
_FORMS = (
    "{p} @ {q}",
    "{p} * {q} + {k}",
    "{p} + {q}.sum() / {k}",
    "{p}.sum() - {k} * {q}",
    "({p} - {q}) / {k}",
    "{k} * {p} / (1 + {q} ** 2)",
)
_EACH_FORMS = ("{p} * {q} + {k}", "({p} - {q}) / {k}", "{k} * {p} - {q}", "{p} + {k} * {q}.sin()")
_HOW = {0: "one row", 1: "one column", None: "the whole"}
_KEYS = 4


@dataclass(frozen=True)
class _Way:
    """One way to go through the arguments: the dimension taken of each, and where the results are put.

    Attributes:
        text: how it is written.
        dims: 0, 1 or None for each argument.
        out: the dimension of the result.
    """

    text: str
    dims: Dims
    out: int = 0

    def same(self, other: _Way) -> bool:
        return (self.dims, self.out) == (other.dims, other.out)


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = Page(draw)
        made = _two_tensors(page, level) if level < 3 else draw.choice((_dictionary, _nested))(page)
        if made.fits and (program := made.finish()) is not None:
            return program


@dataclass
class _Loop:
    """A program that has its loop: what is left is to ask.

    Attributes:
        page: the program.
        right: what the loop does.
        pool: the ways to choose from.
        arguments: what the dims are those of, as they are written.
        line: the line with the loop.
    """

    page: Page
    right: _Way
    pool: Sequence[_Way]
    arguments: Sequence[str]
    line: int

    @property
    def fits(self) -> bool:
        return self.page.fits

    def finish(self) -> Program | None:
        draw = self.page.draw
        right = [way for way in self.pool if way.same(self.right)]
        wrong = [way for way in self.pool if not way.same(self.right)]
        chosen = draw.sample(right, min(len(right), 1 + draw.below(2)))
        chosen += draw.sample(wrong, min(len(wrong), _KEYS - len(chosen)))
        names, questions = self.page.names(), []
        for way in draw.sample(chosen, len(chosen)):
            reason, answer = self._reason(way), way.same(self.right)
            then = f"`{way.text}` {'gives' if answer else 'does not give'} what the loop gives"
            text = named(explain_answer(reason, then), names)
            questions.append(Question(way.text, answer, self.line, reason.rule, text))
        return Program(tuple(named(row, names) for row in self.page.lines), tuple(questions))

    def _reason(self, way: _Way) -> Reason:
        taken = [f"{_HOW[dim]} of {name}" for name, dim in zip(self.arguments, self.right.dims, strict=True)]
        facts = {"taken": ", ".join(taken[:-1]) + " and " + taken[-1], "key": f"`{way.text}`"}
        if way.same(self.right):
            return Reason(self.line, "taken", facts)
        for name, dim, wanted in zip(self.arguments, way.dims, self.right.dims, strict=True):
            if dim != wanted:
                facts |= {"dim": _HOW[dim], "wanted": _HOW[wanted], "name": name}
                return Reason(self.line, "taken otherwise", facts)
        facts |= {"out": str(way.out), "wanted": str(self.right.out)}
        return Reason(self.line, "put elsewhere", facts)


def _tensor(page: Page, size: int) -> str:
    name = page.name()
    page.write(f"{name} = torch.{page.draw.choice(('randn', 'rand'))}({size}, {size})")
    return name


def _function(page: Page, forms: Sequence[str]) -> str:
    """A function of two arguments; returns its name."""
    draw, name = page.draw, page.draw.choice(_FUNCTIONS)
    p, q = page.name(), page.name()
    body = draw.choice(forms).format(p=p, q=q, k=2 + draw.below(8))
    page.write(f"{name} = lambda {p}, {q}: {body}")
    return name


def _slice(name: str, dim: int | None, at: str) -> str:
    return name if dim is None else f"{name}[{at}]" if dim == 0 else f"{name}[:, {at}]"


def _two_tensors(page: Page, level: int) -> _Loop:
    """Level 1 takes rows or all; level 2 columns, too, and may stack the results elsewhere."""
    draw, size = page.draw, 3 + page.draw.below(7)
    a, b = _tensor(page, size), _tensor(page, size)
    name = _function(page, _FORMS)
    at = page.name()
    every: list[Dims] = [(0, 0), (0, None), (None, 0)]
    if level > 1:
        every += [(0, 1), (1, 0), (1, 1), (1, None), (None, 1)]
    # The results of a product of two rows are numbers, which have no second dimension to stack along.
    out = draw.below(2) if level > 1 and " @ " not in page.lines[-1] else 0
    right = draw.choice(every if level == 1 else every[1:] if out else every[3:])
    pool = [_Way(str(dims), dims) for dims in every] + [_Way("0", (0, 0))]
    if level > 1:
        last = [_Way(str(dims).replace("1", "-1"), dims) for dims in every if 1 in dims]
        pool = [way for way in [*pool, *last, _Way("1", (1, 1))] if _near(way.dims, right)]
        if " @ " not in page.lines[-1]:
            near = [_Way(way.text, way.dims) for way in pool]
            pool = near + [_Way(f"{way.text}, out_dims=1", way.dims, 1) for way in near]
            pool = [way for way in pool if way.out == out or way.dims == right]
    inner = f"{name}({_slice(a, right[0], at)}, {_slice(b, right[1], at)})"
    line = page.write(f"loop = torch.stack([{inner} for {at} in range({size})]{', dim=1' if out else ''})")
    page.write(f"once = torch.vmap({name}, in_dims={IN_DIMS})({a}, {b})")
    return _Loop(page, _Way("", right, out), pool, (f"`{a}`", f"`{b}`"), line)


def _near(dims: Dims, right: Dims) -> bool:
    """Whether at most one argument is taken otherwise, or the two are mixed up."""
    return sum(one != other for one, other in zip(dims, right, strict=True)) < 2 or dims == right[::-1]


def _dictionary(page: Page) -> _Loop:
    """Arguments in a dict, as an ensemble's parameters are."""
    draw, size = page.draw, 3 + page.draw.below(7)
    first, second = draw.sample(("w", "b", "scale", "shift"), 2)
    names = page.name(), page.name()
    entries = ", ".join(f'"{key}": torch.randn({size}, {size})' for key in (first, second))
    page.write(f"{names[0]} = {{{entries}}}")
    page.write(f"{names[1]} = torch.{draw.choice(('randn', 'rand'))}({size}, {size})")
    p, q, at, name = page.name(), page.name(), page.name(), draw.choice(_FUNCTIONS)
    body = draw.choice(("{q} * {x} + {y}", "{q} / {k} - {x} * {y}", "({q} + {x}) * {y}", "{q} + {k} * {x} - {y}"))
    body = body.format(q=q, x=f'{p}["{first}"]', y=f'{p}["{second}"]', k=2 + draw.below(8))
    page.write(f"{name} = lambda {p}, {q}: {body}")
    right: Dims = draw.choice(((0, None, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, 0, None), (0, 0, 0)))
    inside = ", ".join(
        f'"{key}": {_slice(f"{names[0]}[{key!r}]", dim, at)}' for key, dim in zip((first, second), right, strict=False)
    ).replace("'", '"')
    line = page.write(f"part = lambda {at}: {{{inside}}}")
    inner = f"{name}(part({at}), {_slice(names[1], right[2], at)})"
    line = page.write(f"loop = torch.stack([{inner} for {at} in range({size})])")
    page.write(f"once = torch.vmap({name}, in_dims={IN_DIMS})({names[0]}, {names[1]})")
    flags = (0, None)
    pool = [
        _Way(f"({{'{first}': {one}, '{second}': {two}}}, {three})", (one, two, three))
        for one in flags
        for two in flags
        for three in flags
        if sum(x != y for x, y in zip((one, two, three), right, strict=True)) < 2 and (one, two, three) != (None,) * 3
    ]
    pool += [_Way("0", (0, 0, 0)), _Way("(0, None)", (0, 0, None))]
    shown = (f'`{names[0]}["{first}"]`', f'`{names[0]}["{second}"]`', f"`{names[1]}`")
    return _Loop(page, _Way("", right), pool, shown, line)


def _nested(page: Page) -> _Loop:
    """Every row or column of one against every one of the other: a ``vmap`` in a ``vmap``."""
    draw, size = page.draw, 3 + page.draw.below(7)
    pair = _tensor(page, size), _tensor(page, size)
    name = _function(page, _EACH_FORMS)
    one, at, to = page.name(), page.name(), page.name()
    over, outer = draw.below(2), draw.below(2)
    given = [_slice(pair[1 - over], 0, to)]
    given.insert(over, one)
    page.write(f"row = lambda {one}: torch.stack([{name}({', '.join(given)}) for {to} in range({size})])")
    line = page.write(f"loop = torch.stack([row({_slice(pair[over], outer, at)}) for {at} in range({size})])")
    page.write(f"each = torch.vmap({name}, in_dims={_one_of(1 - over, 0)})")
    page.write(f"once = torch.vmap(each, in_dims={IN_DIMS})({pair[0]}, {pair[1]})")
    ways = [_one_of(which, dim) for which in (0, 1) for dim in (0, 1)]
    pool = [_Way(str(dims), dims) for dims in ways]
    pool += [_Way(str(dims).replace("1", "-1"), dims) for dims in ways if 1 in dims]
    return _Loop(page, _Way("", _one_of(over, outer)), pool, (f"`{pair[0]}`", f"`{pair[1]}`"), line)


def _one_of(which: int, dim: int) -> Dims:
    """A dimension of one of two arguments, and the whole of the other."""
    return (dim, None) if which == 0 else (None, dim)

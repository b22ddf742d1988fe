"""Drills on the ``in_dims`` of ``torch.vmap``: which of them does the work of this loop? (``write``)

All sizes of a program are equal, so that shapes give nothing away and what is wrong mostly runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from course_utils.drills.programs import MAKER, Draw, Page, Program
from course_utils.drills.run import execute

TASK = "Which `in_dims` make `once` equal to `loop`? Each key is put in the place of `IN_DIMS`. One that raises an error does not."
LESSONS = ("model_ensembling",)
MARKS = {2: r"\[:, |dim=1", 3: r"\{|each"}
_IN_DIMS = "IN_DIMS"  # what a key stands for in the program
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
_DICT_FORMS = ("{q} * {x} + {y}", "{q} / {k} - {x} * {y}", "({q} + {x}) * {y}", "{q} + {k} * {x} - {y}")
_HOW = {0: "one row", 1: "one column", None: "the whole"}
Dims = tuple[int | None, ...]


class Loop(Page):
    """A program while it is written.

    Attributes:
        size: all its sizes.
        names: what the dims are those of, as it is written.
        right, out: the dimension that the loop takes of each, and the one along which it puts its results.
        keys: the ways to choose from.
    """

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.size = 3 + draw.below(7)
        self.names: list[str] = []
        self.right: Dims = ()
        self.out = 0
        self.keys: list[str] = []

    def tensor(self) -> str:
        name = self.name()
        self.write(f"{name} = torch.{self.draw.choice(('randn', 'rand'))}({self.size}, {self.size})")
        return name

    def function(self, forms: Sequence[str], **more: str) -> str:
        """A function of two arguments; returns its name. ``more``: what a form says of the first one."""
        name, p, q = self.draw.choice(_FUNCTIONS), self.name(), self.name()
        fill = {key: text.format(p=p) for key, text in more.items()}
        self.write(
            f"{name} = lambda {p}, {q}: {self.draw.choice(forms).format(p=p, q=q, k=2 + self.draw.below(8), **fill)}"
        )
        return name

    def once(self, name: str, *arguments: str) -> None:
        self.write(f"once = torch.vmap({name}, in_dims={_IN_DIMS})({', '.join(arguments)})", run=False)

    def dims(self, key: str) -> tuple[Dims, int]:
        """What a key says: the dimension of each argument, and that of the results."""
        found = eval(f"dict(in_dims={key})")
        given, dims = found["in_dims"], list[int | None]()
        count = len(self.names)
        for one in given if isinstance(given, tuple) else (given,) * count:
            dims += one.values() if isinstance(one, dict) else [one]
        if len(dims) < count:  # one for the whole dict, which comes first
            dims = [dims[0]] * (count - len(dims)) + dims
        return tuple(dim if dim is None else dim % 2 for dim in dims), found.get("out_dims", 0)


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Loop(draw)
    if level < 3:
        line = _two_tensors(page, level)
    else:
        line = draw.choice((_dictionary, _nested))(page)
    read = partial(_read, page.keys)
    found = read(page.lines)
    right, wrong = ([key for key in page.keys if found[key] is value] for value in (True, False))
    chosen = draw.sample(right, min(len(right), 1 + draw.chance(0.7)))
    chosen += draw.sample(wrong, min(len(wrong), 2 + draw.chance(0.5) * (len(chosen) < 2)))
    once = page.lines[-1].removeprefix("once = ")
    if "each" in once:
        once = once.replace("each", page.lines[-2].removeprefix("each = "))
    equal = {True: "gives", False: "does not give"}
    for key in draw.sample(chosen, len(chosen)):
        otherwise = once.replace(_IN_DIMS, wrong[0] if found[key] else key)
        page.effect(line, _rule(page, key), f"loop = {otherwise}", key, rank=MAKER)
        page.ask(key, "equal to the loop?", lambda yes, key=key: f"`{key}` {equal[yes]} what the loop gives")
    return page.finish(partial(_read, list(page.asked)), most=4)


def _rule(page: Loop, key: str) -> str:
    """What the loop takes, and where the key takes something else."""
    dims, out = page.dims(key)
    taken = [f"{_HOW[dim]} of `{name}`" for name, dim in zip(page.names, page.right, strict=True)]
    start = f"The loop takes {', '.join(taken[:-1])} and {taken[-1]} at a time"
    for name, dim, right in zip(page.names, dims, page.right, strict=True):
        if dim != right:
            return f"{start}, and `{key}` takes {_HOW[dim]} of `{name}`"
    if out != page.out:
        return f"The loop puts its results along dimension {page.out}, and `{key}` puts them along dimension {out}"
    return f"{start}, and `{key}` says the same"


def _slice(name: str, dim: int | None, at: str) -> str:
    return name if dim is None else f"{name}[{at}]" if dim == 0 else f"{name}[:, {at}]"


def _two_tensors(page: Loop, level: int) -> int:
    """Level 1 takes rows or all; level 2 columns, too, and may stack the results elsewhere."""
    draw, a, b = page.draw, page.tensor(), page.tensor()
    name, at = page.function(_FORMS), page.name()
    every: list[Dims] = [(0, 0), (0, None), (None, 0)]
    if level > 1:
        every += [(0, 1), (1, 0), (1, 1), (1, None), (None, 1)]
    # The results of a product of two rows are numbers, which have no second dimension to stack along.
    has_out = level > 1 and " @ " not in page.lines[-1]
    page.out = draw.below(2) if has_out else 0
    page.names, page.right = [a, b], draw.choice(every if level == 1 else every[1:] if page.out else every[3:])
    keys = [*map(str, every), "0"]
    if level > 1:
        keys += [str(dims).replace("1", "-1") for dims in every if 1 in dims] + ["1"]
        keys = [key for key in keys if _near(page.dims(key)[0], page.right)]
    if has_out:
        keys += [f"{key}, out_dims=1" for key in keys]
        keys = [key for key in keys if page.dims(key)[1] == page.out or page.dims(key)[0] == page.right]
    page.keys = keys
    inner = f"{name}({_slice(a, page.right[0], at)}, {_slice(b, page.right[1], at)})"
    line = page.write(f"loop = torch.stack([{inner} for {at} in range({page.size})]{', dim=1' if page.out else ''})")
    page.once(name, a, b)
    return line


def _near(dims: Dims, right: Dims) -> bool:
    """Whether at most one argument is taken otherwise, or the two are mixed up."""
    return sum(one != other for one, other in zip(dims, right, strict=True)) < 2 or dims == right[::-1]


def _dictionary(page: Loop) -> int:
    """Arguments in a dict, as an ensemble's parameters are."""
    draw, size = page.draw, page.size
    first, second = draw.sample(("w", "b", "scale", "shift"), 2)
    given, other = page.name(), page.name()
    page.write(f'{given} = {{"{first}": torch.randn({size}, {size}), "{second}": torch.randn({size}, {size})}}')
    page.write(f"{other} = torch.{draw.choice(('randn', 'rand'))}({size}, {size})")
    name, at = page.function(_DICT_FORMS, x=f'{{p}}["{first}"]', y=f'{{p}}["{second}"]'), page.name()
    right: Dims = draw.choice(((0, None, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, 0, None), (0, 0, 0)))
    page.right, page.names = right, [f'{given}["{first}"]', f'{given}["{second}"]', other]
    entries = (
        f'"{key}": {_slice(part, dim, at)}' for key, part, dim in zip((first, second), page.names, right, strict=False)
    )
    page.write(f"part = lambda {at}: {{{', '.join(entries)}}}")
    inner = f"{name}(part({at}), {_slice(other, right[2], at)})"
    line = page.write(f"loop = torch.stack([{inner} for {at} in range({size})])")
    page.once(name, given, other)
    every = [f"({{'{first}': {x}, '{second}': {y}}}, {z})" for x, y, z in itertools.product((0, None), repeat=3)][:-1]
    near = [key for key in every if sum(x != y for x, y in zip(page.dims(key)[0], right, strict=True)) < 2]
    page.keys = [*near, "0", "(0, None)"]
    return line


def _nested(page: Loop) -> int:
    """Every row or column of one against every one of the other: a ``vmap`` in a ``vmap``."""
    draw, pair = page.draw, (page.tensor(), page.tensor())
    name, one, at, to = page.function(_EACH_FORMS), page.name(), page.name(), page.name()
    over, outer = draw.below(2), draw.below(2)
    given = [_slice(pair[1 - over], 0, to)]
    given.insert(over, one)
    page.write(f"row = lambda {one}: torch.stack([{name}({', '.join(given)}) for {to} in range({page.size})])")
    line = page.write(f"loop = torch.stack([row({_slice(pair[over], outer, at)}) for {at} in range({page.size})])")
    page.write(f"each = torch.vmap({name}, in_dims={_one_of(1 - over, 0)})")
    page.once("each", *pair)
    page.names, page.right = list(pair), _one_of(over, outer)
    ways = [_one_of(which, dim) for which in (0, 1) for dim in (0, 1)]
    page.keys = [*map(str, ways), *(str(dims).replace("1", "-1") for dims in ways if 1 in dims)]
    return line


def _one_of(which: int, dim: int) -> Dims:
    """A dimension of one of two arguments, and the whole of the other."""
    return (dim, None) if which == 0 else (None, dim)


def _read(keys: Sequence[str], lines: Sequence[str]) -> dict[str, bool]:
    """Which dims give what the loop gives. One that cannot be run does not."""
    names = execute(lines[:-1])
    return {key: _is_loop(lines[-1].replace(_IN_DIMS, key), names) for key in keys}


def _is_loop(line: str, names: dict[str, Any]) -> bool:
    try:
        exec(line, names)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    once, loop = names["once"], names["loop"]
    return once.shape == loop.shape and torch.allclose(once, loop, rtol=1e-3, atol=1e-5)

"""Drills on the ``in_dims`` of ``torch.vmap``: which of them does the work of this loop? (``write``)

All sizes of a program are equal, so that shapes give nothing away and what is wrong mostly runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from course_utils.drills.page import Asked, Page
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import MAKER, Effect
from course_utils.drills.run import execute
from course_utils.drills.texts import grammar

TASK = (
    "Which `in_dims` make `once` equal to `loop`? Each key is put in the place of `IN_DIMS`. One that raises an error "
    "does not."
)
LESSONS = ("model_ensembling",)
MARKS = {2: r"\[:, ", 3: r"\{|each"}
_GRAMMAR = grammar(r"""
tensor: torch.<<randn|rand>>(<<n>>, <<n>>)
k: <<2..9>>
two: <<$p @ $q|$p * $q + <<k>>|$p + $q.sum() / <<k>>|($p - $q) / <<k>>>>
two x0.5: <<$p.sum() - <<k>> * $q|<<k>> * $p / (1 + $q ** 2)>>
each: <<$p * $q + <<k>>|($p - $q) / <<k>>|<<k>> * $p - $q|$p + <<k>> * $q.sin()>>
dict: <<$q * <<x>> + <<y>>|$q / <<k>> - <<x>> * <<y>>|($q + <<x>>) * <<y>>|$q + <<k>> * <<x>> - <<y>>>>

two tensors:
    $a = <<tensor>>
    $b = <<tensor>>
    <<name>> = lambda $p, $q: <<body>>
    loop = torch.stack([<<name>>(<<take $a>>, <<take $b>>) for $t in range(<<n>>)]<<out>>)
    once = torch.vmap(<<name>>, in_dims=IN_DIMS<<out dims>>)($a, $b)
dictionary:
    $a = {"<<first>>": torch.randn(<<n>>, <<n>>), "<<second>>": torch.randn(<<n>>, <<n>>)}
    $b = <<tensor>>
    <<x:=$p["<<first>>"]>><<y:=$p["<<second>>"]>><<name>> = lambda $p, $q: <<dict>>
    part = lambda $t: {"<<first>>": <<take first>>, "<<second>>": <<take second>>}
    loop = torch.stack([<<name>>(part($t), <<take $b>>) for $t in range(<<n>>)])
    once = torch.vmap(<<name>>, in_dims=IN_DIMS)($a, $b)
nested:
    $a = <<tensor>>
    $b = <<tensor>>
    <<name>> = lambda $p, $q: <<each>>
    row = lambda $r: torch.stack([<<name>>(<<pair>>) for $c in range(<<n>>)])
    loop = torch.stack([row(<<take over>>) for $t in range(<<n>>)])
    each = torch.vmap(<<name>>, in_dims=<<inner>>)
    once = torch.vmap(each, in_dims=IN_DIMS)($a, $b)
""")
_HOW = {0: "one row", 1: "one column", None: "the whole"}
Dims = tuple[int | None, ...]


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    kind = draw.choice(("dictionary", "nested")) if level == 3 else "two tensors"
    first, second = draw.sample(("w", "b", "scale", "shift"), 2)
    more = {"n": f"{3 + draw.below(7)}", "name": draw.choice(("mix", "score", "blend", "join", "step", "apply"))}
    page = Page(draw, _GRAMMAR, more | {"first": first, "second": second})
    names, holes = ["$a", "$b"], ["$a", "$b"]
    right: Dims
    if kind == "two tensors":
        more["body"] = page.fill("<<two>>")
        right, keys = _two(draw, level)
        # The results of a product of two rows are numbers, which have no second dimension to stack along.
        is_second = level > 1 and "@" not in more["body"] and draw.chance(0.5)
        more |= {"out": ", dim=1" * is_second, "out dims": ", out_dims=1" * is_second}
    elif kind == "nested":
        over, ways = draw.below(2), [(0, None), (1, None), (None, 0), (None, 1)]
        right, keys = ways[2 * over + draw.below(2)], [*map(str, ways), "(-1, None)", "(None, -1)"]
        more |= {"take over": _slice(names[over], right[over]), "inner": str(ways[2 - 2 * over])}
        more["pair"] = "$a[$c], $r" if over else "$r, $b[$c]"
    else:
        names, holes = [f'$a["{first}"]', f'$a["{second}"]', "$b"], ["first", "second", "$b"]
        right = draw.choice(((0, None, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, 0, None), (0, 0, 0)))
        every = [f"({{'{first}': {x}, '{second}': {y}}}, {z})" for x, y, z in itertools.product((0, None), repeat=3)]
        keys = [key for key in every[:-1] if _far(_dims(key, 3), right) < 2] + ["0", "(0, None)"]
    more |= {f"take {hole}": _slice(name, dim) for hole, name, dim in zip(holes, names, right, strict=True)}
    page.grammar = {**page.grammar, **{hole: {text: 1.0} for hole, text in more.items()}}
    *head, once = page.fill(f"<<{kind}>>").split("\n")
    page.add("\n".join(head))
    page.add(once, run=False)
    return _ask(page, [page.fill(name) for name in names], right, keys)


def _two(draw: Draw, level: int) -> tuple[Dims, list[str]]:
    """Level 1 takes rows or all; level 2 columns, too."""
    every: list[Dims] = [(0, 0), (0, None), (None, 0)]
    if level == 1:
        return draw.choice(every), [*map(str, every), "0"]
    every += [(0, 1), (1, 0), (1, 1), (1, None), (None, 1)]
    right = draw.choice(every[3:])
    keys = [*map(str, every), "0", "1", *(str(dims).replace("1", "-1") for dims in every if dims.count(1) == 1)]
    # At most one argument is taken otherwise, or the two are mixed up.
    return right, [key for key in keys if _far(_dims(key, 2), right) < 2 or _dims(key, 2) == right[::-1]]


def _ask(page: Page, names: list[str], right: Dims, keys: list[str]) -> Program:
    draw, found = page.draw, _read(keys, page.lines)
    good, bad = ([key for key in keys if found[key] is value] for value in (True, False))
    chosen = draw.sample(good, min(len(good), 1 + draw.chance(0.7)))
    chosen += draw.sample(bad, min(len(bad), 2 + draw.chance(0.5) * (len(chosen) < 2)))
    taken = [f"{_HOW[dim]} of `{name}`" for name, dim in zip(names, right, strict=True)]
    start = f"The loop takes {', '.join(taken[:-1])} and {taken[-1]} at a time"
    asked, once = list[Asked](), page.lines[-1].removeprefix("once = ")
    if "each" in once:
        once = once.replace("each", page.lines[-2].removeprefix("each = "))
    for key in draw.sample(chosen, len(chosen)):
        dims = _dims(key, len(names))
        other = next((at for at, dim in enumerate(dims) if dim != right[at]), None)
        words = f"{start}, and `{key}` says the same"
        if other is not None:
            words = f"{start}, and `{key}` takes {_HOW[dims[other]]} of `{names[other]}`"
        # The loop that another key stands for.
        loops = [once.replace("IN_DIMS", text) for text in (bad if found[key] else [key])]
        page.facts_of[key] = {"words": words, "loops": loops}
        says = {True: "gives what the loop gives", False: "does not give what the loop gives"}
        asked.append(Asked(key, "equal to the loop?", says))
    return page.finish(asked, [_takes], partial(_read, list(page.facts_of)), most=4)


def _takes(page: Page, line: int, key: str) -> Effect | None:
    """What the loop takes, and where the key takes something else."""
    if not page.lines[line - 1].startswith("loop = "):
        return None
    facts = page.facts_of[key]
    for loop in facts["loops"]:
        effect = Effect(line, facts["words"], (*page.lines[: line - 1], f"loop = {loop}", *page.lines[line:]), MAKER)
        if page.tried(partial(_read, list(page.facts_of)), effect):
            return effect
    return None


def _slice(name: str, dim: int | None) -> str:
    return {None: name, 0: f"{name}[$t]", 1: f"{name}[:, $t]"}[dim]


def _far(dims: Dims, right: Dims) -> int:
    """How many arguments are taken otherwise."""
    return sum(one != other for one, other in zip(dims, right, strict=True))


def _dims(key: str, count: int) -> Dims:
    """What a key says: the dimension of each argument."""
    given, dims = eval(key), list[int | None]()
    for one in given if isinstance(given, tuple) else (given,) * count:
        dims += one.values() if isinstance(one, dict) else [one]
    dims = [dims[0]] * (count - len(dims)) + dims  # one for the whole dict, which comes first
    return tuple(dim if dim is None else dim % 2 for dim in dims)


def _read(keys: Sequence[str], lines: Sequence[str]) -> dict[str, bool]:
    """Which dims give what the loop gives. One that cannot be run does not."""
    names = execute(lines[:-1])
    return {key: _is_loop(lines[-1].replace("IN_DIMS", key), names) for key in keys}


def _is_loop(line: str, names: dict[str, Any]) -> bool:
    try:
        exec(line, names)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    once, loop = names["once"], names["loop"]
    return once.shape == loop.shape and torch.allclose(once, loop, rtol=1e-3, atol=1e-5)

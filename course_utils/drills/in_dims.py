"""Drills on the ``in_dims`` of ``torch.vmap``: which of them does the work of this loop?

All sizes of a program are equal, so that shapes give nothing away and what is wrong mostly runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import torch

from course_utils.drills.moves import Ask, Draw, Move, Topic
from course_utils.drills.run import execute

Dims = tuple[int | None, ...]
_TAKES = {0: "{}[t]", 1: "{}[:, t]", None: "{}"}
_SAYS = {0: "one row of", 1: "one column of", None: "the whole of"}
_ROWS: list[Dims] = [(0, 0), (0, None), (None, 0)]
_COLUMNS: list[Dims] = [(0, 1), (1, 0), (1, 1), (1, None), (None, 1)]
_LEAVES: list[Dims] = [(0, None, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, 0, None), (0, 0, 0)]
_KEYS = {
    1: [*map(str, _ROWS), "0"],
    2: [*map(str, _ROWS + _COLUMNS), "0", "1", "(-1, 0)", "(0, -1)", "(-1, None)", "(None, -1)"],
    3: [
        *[f"({{'w': {w}, 'b': {b}}}, {x})" for w, b, x in itertools.product((0, None), repeat=3)][:-1],
        "0",
        "(0, None)",
    ],
}
_WORDS = "The loop takes {takes} at a time, and `{key}` {says}"
_TWO = "loop = torch.stack([{name}(A, B) for t in range({n})]{out})"
_DICT = 'loop = torch.stack([{name}({"w": A, "b": B}, C) for t in range({n})])'


def _loops(text: str, names: str, every: Sequence[Dims], chosen: Sequence[Dims], level: int) -> list[Move]:
    """Loops, each of which is held against all others."""

    def written(dims: Dims) -> str:
        takes = {sign: _TAKES[dim].format(name) for sign, name, dim in zip("ABC", names, dims, strict=False)}
        return re.sub(r"\b[A-Z]\b", lambda sign: takes[sign[0]], text)

    return [
        Move(written(dims), *(("", written(one), _WORDS) for one in every if one != dims), level=level)
        for dims in chosen
    ]


def _values(draw: Draw, level: int) -> dict[str, object]:
    over = ", dim=1" if level == 2 and draw.below(2) else ""
    name = draw.choice(("mix", "score", "blend", "join", "step", "apply"))
    return {"n": 3 + draw.below(7), "name": name, "out": over, "out_dims": over.replace("dim", "out_dims")}


def _dims(key: str, count: int) -> Dims:
    """What a key says: the dimension of each argument."""
    given, dims = eval(key), list[int | None]()
    for one in given if isinstance(given, tuple) else (given,) * count:
        dims += one.values() if isinstance(one, dict) else [one]
    dims = [dims[0]] * (count - len(dims)) + dims  # one for the whole dict, which comes first
    return tuple(dim if dim is None else dim % 2 for dim in dims)


def _facts(lines: Sequence[str], key: str) -> dict[str, str]:
    """What the loop takes, and where the key takes something else."""
    loop = next(line for line in lines if line.startswith("loop = "))
    taken = re.findall(r"\b([abwx])(\[t\]|\[:, t\]|)(?=[,)}])", loop)
    dims = {"[t]": 0, "[:, t]": 1, "": None}
    pairs = [(name, dims[how], mine) for (name, how), mine in zip(taken, _dims(key, len(taken)), strict=True)]
    takes = [f"{_SAYS[dim]} `{name}`" for name, dim, _ in pairs]
    other = next((f"takes {_SAYS[mine]} `{name}`" for name, dim, mine in pairs if dim != mine), "says the same")
    return {"takes": " and ".join([", ".join(takes[:-1]), takes[-1]]), "says": other, "key": key}


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Which dims give what the loop gives. One that cannot be run does not."""
    level = 3 if "{" in lines[-1] else 2 if any("[:, " in line or "dim=1" in line for line in lines) else 1
    *head, once = lines
    names = execute(head)
    return {key: _is_loop(once.replace("IN_DIMS", key), names) for key in _KEYS[level]}


def _is_loop(line: str, names: dict[str, Any]) -> bool:
    try:
        exec(line, names)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    once, loop = names["once"], names["loop"]
    return once.shape == loop.shape and torch.allclose(once, loop, rtol=1e-3, atol=1e-5)


_TENSOR = "torch.{randn|rand}({n}, {n})"
_SAID = {True: "gives what the loop gives", False: "does not give what the loop gives"}
TOPIC = Topic(
    task="Which `in_dims` make `once` equal to `loop`? Each key is put in the place of `IN_DIMS`. One that raises an "
        "error does not.",
    lessons=("model_ensembling",),
    asks={"": Ask("equal to the loop?", _SAID)},
    moves={
        "two": [Move(f"a = {_TENSOR}\nb = {_TENSOR}\n{{name}} = lambda p, q: {{body}}")],
        "rows": _loops(_TWO, "ab", _ROWS, _ROWS, 1),
        "columns": _loops(_TWO, "ab", [*_ROWS, *_COLUMNS], _COLUMNS, 2),
        "leaves": [Move(f"w = {_TENSOR}\nb = {_TENSOR}\nx = {_TENSOR}\n{{name}} = lambda p, q: {{leafy}}")],
        "each": _loops(_DICT, "wbx", _LEAVES, _LEAVES, 3),
        "end": [Move("once = torch.vmap({name}, in_dims=IN_DIMS{out_dims})(a, b)")],
        "end-leaves": [Move('once = torch.vmap({name}, in_dims=IN_DIMS)({"w": w, "b": b}, x)')],
    },
    plans={1: ["two rows end"], 2: ["two columns end"], 3: ["leaves each end-leaves"]},
    read=_read,
    texts={
        "body": ("p @ q / {2..9}", "p @ q + {2..9}", "p * q + {2..9}", "p + q.sum() / {2..9}", "(p - q) / {2..9}",
                 "p.sum() - {2..9} * q", "{2..9} * p / (1 + q ** 2)"),
        "leafy": ('q * p["w"] + p["b"]', 'q / {2..9} - p["w"] * p["b"]', '(q + p["w"]) * p["b"]',
        'q + {2..9} * p["w"] - p["b"]'),
    },
    values=_values,
    facts=_facts,
)  # fmt: skip

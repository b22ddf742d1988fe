"""Drills on the ``in_dims`` of ``torch.vmap``: which of them does the work of this loop?

All sizes of a program are equal, so that shapes give nothing away and what is wrong mostly runs.
"""

from collections.abc import Sequence

import torch

from course_utils.drills.moves import Ask, Move, Topic, execute

Dims = tuple[int | None, ...]
_ROWS: list[Dims] = [(0, 0), (0, None), (None, 0)]
_COLUMNS: list[Dims] = [(0, 1), (1, 0), (1, 1), (1, None), (None, 1)]
_LEAVES: list[Dims] = [(0, None, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, 0, None), (0, 0, 0)]
_KEYS = {  # by what takes one row, one column, or a dict: what is tried
    "[t]": [*map(str, _ROWS), "0"],
    "[:, t]": [*map(str, _ROWS + _COLUMNS), "0", "1", "(-1, 0)", "(0, -1)", "(-1, None)", "(None, -1)"],
    "{": [*(f"({{'w': {w}, 'b': {b}}}, {x})" for w, b, x in _LEAVES), "({'w': None, 'b': None}, 0)", "0", "(0, None)"],
}
_TAKES = {0: ("{}[t]", "one row of `{}`"), 1: ("{}[:, t]", "one column of `{}`"), None: ("{}", "the whole of `{}`")}


def _loops(call: str, names: str, chosen: Sequence[Dims], every: Sequence[Dims], level: int) -> list[Move]:
    """Loops that take of each name what dims say, held against those of all others."""
    texts, words = {}, {}
    for dims in every:
        taken = [_TAKES[dim][0].format(name) for name, dim in zip(names, dims, strict=True)]
        said = [_TAKES[dim][1].format(name) for name, dim in zip(names, dims, strict=True)]
        texts[dims] = f"loop = torch.stack([{{NAME}}({call.format(*taken)}) for t in range({{N}})])"
        words[dims] = f"The loop takes {', '.join(said[:-1])} and {said[-1]} at a time"
    return [Move(texts[dims], [f"-> {text}" for text in texts.values()], words[dims], level) for dims in chosen]


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Which dims give what the loop gives. One that cannot be run does not."""
    *head, once = lines
    names, found = execute(head), {}
    for key in next(_KEYS[mark] for mark in reversed(_KEYS) if mark in "".join(lines)):
        try:
            made, loop = execute([once.replace("IN_DIMS", key)], names)["once"], names["loop"]
            found[key] = made.shape == loop.shape and torch.allclose(made, loop, rtol=1e-3, atol=1e-5)
        except (RuntimeError, ValueError, IndexError, TypeError):
            found[key] = False
    return found


_TENSOR = "torch.{randn|rand}({N}, {N})"
TOPIC = Topic(
    task="Which `in_dims` make `once` equal to `loop`? Each key is put in the place of `IN_DIMS`. One that raises an "
    "error does not.",
    lessons=["model_ensembling"],
    asks={"": Ask("equal?", {True: "`{key}` gives the same", False: "`{key}` does not give the same"})},
    moves={
        "two": [Move(f"a = {_TENSOR}\nb = {_TENSOR}\n{{NAME}} = lambda p, q: {{body}}")],
        "rows": _loops("{}, {}", "ab", _ROWS, _ROWS, 1),
        "columns": _loops("{}, {}", "ab", _COLUMNS, [*_ROWS, *_COLUMNS], 2),
        "leaves": [Move(f"w = {_TENSOR}\nb = {_TENSOR}\nx = {_TENSOR}\n{{NAME}} = lambda p, q: {{leafy}}")],
        "each": _loops('{{"w": {}, "b": {}}}, {}', "wbx", _LEAVES, _LEAVES, 3),
        "end": [Move("once = torch.vmap({NAME}, in_dims=IN_DIMS)(a, b)")],
        "end-leaves": [Move('once = torch.vmap({NAME}, in_dims=IN_DIMS)({"w": w, "b": b}, x)')],
    },
    plans={1: ["two rows end"], 2: ["two columns end"], 3: ["leaves each end-leaves"]},
    read=_read,
    texts={
        "body": ("p @ q / {2..9}", "p @ q + {2..9}", "p * q + {2..9}", "(p - q) / {2..9}", "p.sum() - {2..9} * q"),
        "leafy": ('q * p["w"] + {2..9} * p["b"]', 'q / {2..9} - p["w"] * p["b"]', '(q + {2..9} * p["w"]) * p["b"]'),
        "NAME": ("mix", "score", "blend", "join", "step", "apply"), "N": [*map(str, range(3, 16))],
    },
)  # fmt: skip

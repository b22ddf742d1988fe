"""Drills on loops: which divisor gives the gradient of the whole batch (``SCALE``), and which ``in_dims`` of
``torch.vmap`` do the work of a loop (``IN_DIMS``)?
"""

from collections.abc import Iterator, Sequence
from textwrap import indent

import torch

from course_utils.drills.moves import Ask, Move, Topic, execute

_ALL, _MINE, _KEPT, _KEPT_MINE = "target.numel()", "y.numel()", "(target != -100).sum()", "(y != -100).sum()"
_NUMBERS = "data = torch.{randn|rand}({ROWS}, {2..99})\ntarget = torch.randn({ROWS}, {2..4})\n"
_NUMBERS += "model = nn.Linear({2..99}, {2..4})"
_LABELS = _NUMBERS.replace("randn({ROWS}, {2..4})", "randint({2..4}, ({ROWS},))")


def _loops(loss: str, over: str, *parts: str, level: int = 1, passes: int = 1) -> Iterator[Move]:
    """The whole loss, a mean ``over`` so many numbers (over 1: a sum), and loops over means or sums of parts."""
    for part in parts:
        whole_sum, part_sum = (', reduction="sum"' * (count == "1") for count in (over, part))
        loop = f"""for x, y in zip(data.split({{CHUNK}}), target.split({{CHUNK}})):
    loss = F.{loss}(model(x), y{part_sum})
    (loss / (DIVISOR)).backward()"""
        if passes > 1:
            loop = f"for _ in range({passes}):\n{indent(loop, '    ')}"
        right = f"{passes} * {over} / {part}".removeprefix("1 * ").removesuffix(" / 1")
        edits = (f"range({passes}) -> range(1)", f"(DIVISOR) -> ({right})", "(DIVISOR) -> (2 * (DIVISOR))")
        words = f"A number of the target counts `1 / {over}` in `whole` and `1 / {part}` in the `loss` of its part"
        words = words.replace("`1 / 1`", "1") + ", which the loop adds twice" * (passes > 1)
        yield Move(f"whole = F.{loss}(model(data), target{whole_sum})\n{loop}", edits, words, level)


def _divisors(lines: Sequence[str]) -> dict[str, bool]:
    """Which divisors leave the gradient of the whole loss."""
    at = next(at for at, line in enumerate(lines, 1) if line.startswith("whole = "))
    names, loop = execute(lines[:at]), "\n".join(lines[at:])
    parts = len(eval(loop.partition("zip(")[2].partition(", ")[0], names))
    divisors = ["1", f"{parts}", "len(data)", "len(x)", "len(data) / len(x)"]
    divisors += ["2", f"2 * {parts}", "2 * len(data)", "2 * len(data) / len(x)"] if "range(" in loop else []
    divisors += [_KEPT, f"{_KEPT} / {_KEPT_MINE}"] if "= -100" in "".join(lines) else [_ALL, f"{_ALL} / {_MINE}"]
    weight, found = names["model"].weight, {}
    (whole,) = torch.autograd.grad(names["whole"], weight)
    for divisor in divisors:
        names["model"].zero_grad()
        exec(loop.replace("DIVISOR", divisor), names)
        found[divisor] = torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)
    return found


SCALE = Topic(
    task="Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key is put in the place of "
    "`DIVISOR`, and the program begins from its first line.",
    lessons=["gradient_accumulation"],
    asks={"": Ask("right divisor?", {True: "dividing by `{key}` is right", False: "dividing by `{key}` is not right"})},
    moves={
        "column": [Move(_NUMBERS.replace("{2..4}", "1"))], "wide": [Move(_NUMBERS)], "labels": [Move(_LABELS)],
        "uneven": [Move(_NUMBERS.replace("{ROWS}", "{11|13}"))],
        "ignored": [Move(_LABELS.replace("\nmodel", "\ntarget[:{1|2}] = -100\nmodel"))],
        "numbers-loop": [*_loops("{loss}", _ALL, _MINE, "1"), *_loops("{loss}", "1", "1")],
        "labels-loop": [*_loops("cross_entropy", _ALL, _MINE, "1")],
        "wide-loop": [*_loops("{loss}", _ALL, _MINE, "1", level=2)],
        "twice": [*_loops("{loss}", _ALL, _MINE, "1", level=3, passes=2)],
        "ignored-loop": [*_loops("cross_entropy", _KEPT, _KEPT_MINE, "1", level=3)],
    },
    plans={1: ["column numbers-loop"] * 2 + ["labels labels-loop"], 2: ["wide wide-loop", "uneven wide-loop"],
           3: ["column twice", "wide twice", "ignored ignored-loop"]},
    read=_divisors,
    texts={"loss": ("mse_loss", "l1_loss", "smooth_l1_loss"), "ROWS": ("12",), "CHUNK": "346"},
)  # fmt: skip

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


def _vmapped(call: str, names: str, chosen: Sequence[Dims], every: Sequence[Dims], level: int) -> list[Move]:
    """Loops that take of each name what dims say, held against those of all others."""
    texts, words = {}, {}
    for dims in every:
        taken = [_TAKES[dim][0].format(name) for name, dim in zip(names, dims, strict=True)]
        said = [_TAKES[dim][1].format(name) for name, dim in zip(names, dims, strict=True)]
        texts[dims] = f"loop = torch.stack([{{NAME}}({call.format(*taken)}) for t in range({{N}})])"
        words[dims] = f"The loop takes {', '.join(said[:-1])} and {said[-1]} at a time"
    return [Move(texts[dims], [f"-> {text}" for text in texts.values()], words[dims], level) for dims in chosen]


def _dims(lines: Sequence[str]) -> dict[str, bool]:
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
IN_DIMS = Topic(
    task="Which `in_dims` make `once` equal to `loop`? Each key is put in the place of `IN_DIMS`. One that raises an "
    "error does not.",
    lessons=["model_ensembling"],
    asks={"": Ask("equal?", {True: "`{key}` gives the same", False: "`{key}` does not give the same"})},
    moves={
        "two": [Move(f"a = {_TENSOR}\nb = {_TENSOR}\n{{NAME}} = lambda p, q: {{body}}")],
        "rows": _vmapped("{}, {}", "ab", _ROWS, _ROWS, 1),
        "columns": _vmapped("{}, {}", "ab", _COLUMNS, [*_ROWS, *_COLUMNS], 2),
        "leaves": [Move(f"w = {_TENSOR}\nb = {_TENSOR}\nx = {_TENSOR}\n{{NAME}} = lambda p, q: {{leafy}}")],
        "each": _vmapped('{{"w": {}, "b": {}}}, {}', "wbx", _LEAVES, _LEAVES, 3),
        "end": [Move("once = torch.vmap({NAME}, in_dims=IN_DIMS)(a, b)")],
        "end-leaves": [Move('once = torch.vmap({NAME}, in_dims=IN_DIMS)({"w": w, "b": b}, x)')],
    },
    plans={1: ["two rows end"], 2: ["two columns end"], 3: ["leaves each end-leaves"]},
    read=_dims,
    texts={
        "body": ("p @ q / {2..9}", "p @ q + {2..9}", "p * q + {2..9}", "(p - q) / {2..9}", "p.sum() - {2..9} * q"),
        "leafy": ('q * p["w"] + {2..9} * p["b"]', 'q / {2..9} - p["w"] * p["b"]', '(q + {2..9} * p["w"]) * p["b"]'),
        "NAME": ("mix", "score", "blend", "join", "step", "apply"), "N": [*map(str, range(3, 16))],
    },
)  # fmt: skip

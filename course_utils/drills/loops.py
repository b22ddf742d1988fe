"""Drills on loops: which divisor gives the gradient of the whole batch (``SCALE``), and which ``in_dims`` of
``torch.vmap`` do the work of a loop (``IN_DIMS``)?
"""

from collections.abc import Sequence

import torch

from course_utils.drills.moves import Ask, Move, Topic, execute

_ALL, _MINE, _KEPT, _KEPT_MINE = "target.numel()", "y.numel()", "(target != -100).sum()", "(y != -100).sum()"
_NUMBERS = "data = torch.{randn|rand}({ROWS}, {2..99})\ntarget = torch.randn({ROWS}, {2..4})\n"
_NUMBERS += "model = nn.Linear({2..99}, {2..4})"
_LABELS = "randint({2..4}, ({ROWS},))\ntarget[:{1|2}] = -100"


def _loop(loss: str, over: str, part: str) -> Move:
    """The whole loss, a mean ``over`` so many numbers (over 1: a sum), and a loop over means or sums of parts."""
    whole_sum, part_sum = (', reduction="sum"' * (count == "1") for count in (over, part))
    text = f"""whole = F.{loss}(model(data), target{whole_sum})
for x, y in zip(data.split({{CHUNK}}), target.split({{CHUNK}})):
    loss = F.{loss}(model(x), y{part_sum})
    (loss / (DIVISOR)).backward()"""
    right = f"{over} / {part}".removesuffix(" / 1")
    words = f"Each number of the target counts `1 / {over}` in `whole` and `1 / {part}` in the `loss` of its part"
    return Move(text, (f"(DIVISOR) -> ({right})", "(DIVISOR) -> (2 * (DIVISOR))"), words.replace("`1 / 1`", "1"))


def _divisors(lines: Sequence[str]) -> dict[str, bool]:
    """Which divisors leave the gradient of the whole loss."""
    at = next(at for at, line in enumerate(lines, 1) if line.startswith("whole = "))
    names, loop = execute(lines[:at]), "\n".join(lines[at:])
    parts = len(eval(loop.partition("zip(")[2].partition(", ")[0], names))
    divisors = ["1", f"{parts}", "len(data)", "len(x)", "len(data) / len(x)"]
    divisors += [_KEPT, f"{_KEPT} / {_KEPT_MINE}"] if "= -100" in "".join(lines) else [_ALL, f"{_ALL} / {_MINE}"]
    weight, found = names["model"].weight, {}
    (whole,) = torch.autograd.grad(names["whole"], weight)
    for divisor in divisors:
        names["model"].zero_grad()
        exec(loop.replace("DIVISOR", divisor), names)
        found[divisor] = torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)
    return found


SCALE = Topic(
    task="Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key takes the place of "
    "`DIVISOR`, and the program begins from its first line.",
    lessons=["gradient_accumulation"],
    asks={"": Ask("Is it right?", {True: "dividing by `{key}` is right", False: "dividing by `{key}` is wrong"})},
    moves={
        "column": [Move(_NUMBERS.replace("{2..4}", "1"))],
        "wide": [Move(_NUMBERS, level=2), Move(_NUMBERS.replace("{ROWS}", "{11|13}"), level=2)],
        "ignored": [Move(_NUMBERS.replace("randn({ROWS}, {2..4})", _LABELS), level=3)],
        "loop": [_loop("{loss}", *counts) for counts in ((_ALL, _MINE), (_ALL, "1"), ("1", "1"))],
        "labels-loop": [_loop("cross_entropy", _KEPT, part) for part in (_KEPT_MINE, "1")],
    },
    plans={1: ["column loop"], 2: ["wide loop"], 3: ["ignored labels-loop"]},
    read=_divisors,
    texts={"loss": ("mse_loss", "l1_loss", "smooth_l1_loss"), "ROWS": ("12",), "CHUNK": "346"},
)  # fmt: skip

Dims = tuple[int | None, ...]
_PAIRS: list[Dims] = [(0, 0), (0, None), (None, 0), (0, 1), (1, 0), (1, 1), (1, None), (None, 1)]
_LEAVES: list[Dims] = [(0, None, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, 0, None), (0, 0, 0)]
_PAIR_KEYS = [*map(str, _PAIRS), "0", "1", "(-1, 0)", "(0, -1)", "(-1, None)", "(None, -1)"]
_LEAF_KEYS = [*(f"({{'w': {w}, 'b': {b}}}, {x})" for w, b, x in _LEAVES), "({'w': None, 'b': None}, 0)", "0"]
_TAKES = {0: ("{}[t]", "one row of `{}`"), 1: ("{}[:, t]", "one column of `{}`"), None: ("{}", "the whole of `{}`")}


def _vmapped(call: str, names: str, every: Sequence[Dims], level: int) -> list[Move]:
    """Loops that take of each name what dims say, each held against all others; columns come a level later."""
    texts, words = {}, {}
    for dims in every:
        taken = [_TAKES[dim][0].format(name) for name, dim in zip(names, dims, strict=True)]
        said = [_TAKES[dim][1].format(name) for name, dim in zip(names, dims, strict=True)]
        texts[dims] = f"loop = torch.stack([{{NAME}}({call.format(*taken)}) for t in range({{N}})])"
        words[dims] = f"The loop takes {', '.join(said[:-1])} and {said[-1]} at a time"
    edits = [f"-> {text}" for text in texts.values()]
    return [Move(texts[dims], edits, words[dims], level + (1 in dims)) for dims in every]


def _dims(lines: Sequence[str]) -> dict[str, bool]:
    """Which dims give what the loop gives. One that cannot be run does not."""
    *head, once = lines
    names, found = execute(head), {}
    for key in _LEAF_KEYS if "{" in once else _PAIR_KEYS:
        try:
            made, loop = execute([once.replace("IN_DIMS", key)], names)["once"], names["loop"]
            found[key] = made.shape == loop.shape and torch.allclose(made, loop, rtol=1e-3, atol=1e-5)
        except (RuntimeError, ValueError, IndexError, TypeError):
            found[key] = False
    return found


_TENSOR = "torch.{randn|rand}({N}, {N})"
IN_DIMS = Topic(
    task="Which `in_dims` make `once` equal to `loop`? Each key takes the place of `IN_DIMS`; one that raises an "
    "error does not.",
    lessons=["model_ensembling"],
    asks={"": Ask("Does it give `loop`?", {True: "`{key}` gives the same", False: "`{key}` does not give the same"})},
    moves={
        "two": [Move(f"a = {_TENSOR}\nb = {_TENSOR}\n{{NAME}} = lambda p, q: {{body}}")],
        "pairs": _vmapped("{}, {}", "ab", _PAIRS, 1),
        "leaves": [Move(f"w = {_TENSOR}\nb = {_TENSOR}\nx = {_TENSOR}\n{{NAME}} = lambda p, q: {{leafy}}")],
        "each": _vmapped('{{"w": {}, "b": {}}}, {}', "wbx", _LEAVES, 3),
        "end": [Move("once = torch.vmap({NAME}, in_dims=IN_DIMS)(a, b)")],
        "end-leaves": [Move('once = torch.vmap({NAME}, in_dims=IN_DIMS)({"w": w, "b": b}, x)')],
    },
    plans={1: ["two pairs end"], 2: ["two pairs end"], 3: ["leaves each end-leaves"]},
    read=_dims,
    texts={"body": ("p @ q / {2..9}", "p @ q + {2..9}", "p * q + {2..9}", "(p - q) / {2..9}", "p.sum() - {2..9} * q"),
           "leafy": ('q * p["w"] + {2..9} * p["b"]', 'q / {2..9} - p["w"] * p["b"]', '(q + {2..9} * p["w"]) * p["b"]'),
           "NAME": ("mix", "score", "blend", "join", "step", "apply"), "N": [*map(str, range(3, 16))]},
)  # fmt: skip

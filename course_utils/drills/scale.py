"""Drills on the scale of accumulated gradients: which divisor gives the gradient of the whole batch?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch

from course_utils.drills.moves import USUAL, Ask, Draw, Move, Topic
from course_utils.drills.run import space

_SUM = ', reduction="sum"'
_KEPT, _KEPT_SHARE = "(target != -100).sum()", "(target != -100).sum() / (y != -100).sum()"
_WEIGHTS = "{start}. The loop gives it {loop} before it divides, and {made} with `{key}`"
_SMALL = "`split` leaves a last part that is smaller. {start}; with `{key}` the loop gives it {made}"
_TWICE = "The loop sees all the data twice. {start}; with `{key}` the loop gives it {made} over both"
_IGNORED = "`cross_entropy` leaves out labels of -100, in its mean, too. {start}; with `{key}` the loop gives it {made}"
_DATA = "data = torch.{randn|rand}({size}, {width})\ntarget = "
_NUMBERS = _DATA + "torch.randn({size}, {outputs})\nmodel = nn.Linear({width}, {outputs})"
_LABELS = _DATA + "torch.randint({classes}, ({size},))\nmodel = nn.Linear({width}, {classes})"

_SOME_LABELS = Move(_LABELS.replace("\nmodel", "\ntarget[:{gone}] = -100\nmodel"), ("] = -100", "] = 0", _IGNORED))


def _loop(loss: str, whole: str, part: str, right: str, passes: int = 1, level: int = 1, weight: float = 1.0) -> Move:
    """The whole loss, and the loop over parts with what is asked about in it; ``right``: a divisor that is right."""
    lines = ["for x, y in zip(data.split({chunk}), target.split({chunk})):", f"    loss = F.{loss}(model(x), y{part})",
             "    (loss / (DIVISOR)).backward()"]  # fmt: skip
    if passes > 1:
        lines, right = ["for _ in range(2):", *("    " + line for line in lines)], f"2 * ({right})"
    text = "\n".join([f"whole = F.{loss}(model(data), target{whole})", *lines])
    others = [("(DIVISOR)", f"({right})", _WEIGHTS, "", USUAL), ("(DIVISOR)", "(2 * (DIVISOR))", _WEIGHTS, "", USUAL)]
    causes = [("split({chunk})", "tensor_split({parts})", _SMALL), ("range(2)", "range(1)", _TWICE)]
    return Move(text, *others, *(cause for cause in causes if cause[0] in text), level=level, weight=weight)


_MEANS, _SUMS, _BOTH_SUMS = ("", "", "target.numel() / y.numel()"), ("", _SUM, "target.numel()"), (_SUM, _SUM, "1")
_LOOPS = {
    "end-numbers": [
        _loop("{loss}", *_MEANS, weight=2),
        _loop("{loss}", *_SUMS, weight=2),
        _loop("{loss}", *_BOTH_SUMS),
    ],
    "end-labels": [_loop("cross_entropy", *_MEANS), _loop("cross_entropy", *_SUMS)],
    "end-uneven": [_loop("{loss}", *_MEANS, level=2), _loop("{loss}", *_SUMS, level=2)],
    "end-twice": [_loop("{loss}", *_MEANS, passes=2, level=3), _loop("{loss}", *_SUMS, passes=2, level=3)],
    "end-kept": [
        _loop("cross_entropy", "", "", _KEPT_SHARE, level=3),
        _loop("cross_entropy", "", _SUM, _KEPT, level=3),
    ],
}


def _sizes(draw: Draw, level: int) -> dict[str, object]:
    parts = 2 + draw.below(4)
    equal = parts + draw.below(4)  # at least as many rows as parts, so that as many parts of one row more have room
    is_uneven = level > 1 and draw.below(2) == 1
    is_wide = level > 1 and (not is_uneven or draw.below(2) == 1)
    outputs = 2 + draw.below(3) if is_wide else 1
    return {"parts": parts, "size": equal * parts, "chunk": equal + is_uneven, "width": 2 + draw.below(30),
        "outputs": outputs,
            "classes": 2 + draw.below(4), "gone": 1 + draw.below(equal - 1)}  # fmt: skip


def _run(lines: Sequence[str]) -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
    """The names of a program when the whole loss is computed, the text of its loop, and the names in each part."""
    at, names = next(at for at, line in enumerate(lines, 1) if line.startswith("whole = ")), space()
    exec("\n".join(lines[:at]), names)
    loop = "\n".join(lines[at:])
    method, number = re.search(r"data\.(\w+)\((\d+)\)", loop).groups()  # type: ignore[union-attr]
    data, target = (getattr(names[name], method)(int(number)) for name in ("data", "target"))
    return names, loop, [{**names, "x": x, "y": y} for x, y in zip(data, target, strict=True)]


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Which divisors leave the gradient of the whole loss."""
    names, loop, parts = _run(lines)
    divisors = ["1", str(len(parts)), "len(data)", "len(x)", "len(data) / len(x)"]
    if "range(" in loop:
        divisors += ["2", str(2 * len(parts)), "2 * len(data)", "2 * len(data) / len(x)"]
    divisors += (
        [_KEPT, _KEPT_SHARE] if "target[:" in "".join(lines) else ["target.numel()", "target.numel() / y.numel()"]
    )
    weight, found = names["model"].weight, {}
    (whole,) = torch.autograd.grad(names["whole"], weight)
    for divisor in divisors:
        names["model"].zero_grad()
        exec(loop.replace("DIVISOR", divisor), names)
        found[divisor] = torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)
    return found


def _weights(lines: Sequence[str], key: str) -> dict[str, str]:
    """The weight of one number in the whole loss, what the loop gives it, and what that is divided by ``key``."""
    names, loop, parts = _run(lines)
    before, passes = "\n".join(lines).partition("for ")[0], 2 if "range(2)" in loop else 1
    counted = [(one["y"] != -100).sum().item() for one in parts]
    given = [Fraction(passes, 1 if "reduction" in loop else count) for count in counted]
    divided = [
        one / Fraction(float(eval(key, names))).limit_denominator(999) for one, names in zip(given, parts, strict=True)
    ]
    unit = "number of the target" if names["target"].dim() == 2 else "label" + " that counts" * ("-100" in before)
    start = f"`whole` gives each {unit} the weight {Fraction(1, 1 if 'reduction' in before else sum(counted))}"
    loop, made = (
        str(one[0]) if len(set(one)) == 1 else f"{one[0]} in the first part and {one[-1]} in the last"
        for one in (given, divided)
    )
    return {"start": start, "loop": loop, "made": made, "key": key}


_SAYS = {True: "gives the gradient of `whole`", False: "does not give the gradient of `whole`"}
TOPIC = Topic(
    task="Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key is put in the place of "
    "`DIVISOR`, and the program begins from its first line.",
    lessons=("gradient_accumulation",),
    asks={"": Ask("right divisor?", _SAYS, subject="dividing by `{key}`")},
    moves={"numbers": [Move(_NUMBERS)], "labels": [Move(_LABELS)], "kept": [_SOME_LABELS], **_LOOPS},
    plans={1: ["numbers end-numbers"] * 2 + ["labels end-labels"], 2: ["numbers end-uneven"],
           3: ["numbers end-twice", "kept end-kept"]},
    read=_read,
    texts={"loss": ("mse_loss", "l1_loss", "smooth_l1_loss")},
    values=_sizes,
    facts=_weights,
)  # fmt: skip

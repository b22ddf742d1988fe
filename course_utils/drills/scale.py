"""Drills on the scale of accumulated gradients: which divisor gives the gradient of the whole batch?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch

from course_utils.drills.engine import Ask, Draw, Effect, Move, Topic
from course_utils.drills.run import space

_SUM = ', reduction="sum"'
_ALL, _SHARE = "target.numel()", "target.numel() / y.numel()"
_KEPT, _KEPT_SHARE = "(target != -100).sum()", "(target != -100).sum() / (y != -100).sum()"
_WEIGHTS = "{start}. The loop gives it {loop} before it divides, and {made} with `{key}`"
_SMALL = "`split` leaves a last part that is smaller. {start}; with `{key}` the loop gives it {made}"
_TWICE = "The loop sees all the data twice. {start}; with `{key}` the loop gives it {made} over both"
_IGNORED = "`cross_entropy` leaves out labels of -100, in its mean, too. {start}; with `{key}` the loop gives it {made}"
_SPLIT = "zip(data.split({chunk}), target.split({chunk}))"
_EQUAL = "zip(data.tensor_split({parts}), target.tensor_split({parts}))"
_DATA = "data = torch.{randn|rand}({size}, {width})\ntarget = "
_NUMBERS = _DATA + "torch.randn({size}, {outputs})\nmodel = nn.Linear({width}, {outputs})"
_LABELS = _DATA + "torch.randint({classes}, ({size},))\nmodel = nn.Linear({width}, {classes})"
_LABELS_KEPT = _LABELS.replace("\nmodel", "\ntarget[:{gone}] = -100\nmodel")


def _loop(loss: str, whole: str, part: str, right: str, passes: int = 1, **more: float) -> Move:
    """The whole loss, and the loop over parts that divides by what is asked about; ``right``: a divisor that is right."""
    lines = [f"for x, y in {_SPLIT}:", f"    loss = F.{loss}(model(x), y{part})", "    (loss / (DIVISOR)).backward()"]
    if passes > 1:
        lines, right = ["for _ in range(2):", *("    " + line for line in lines)], f"2 * ({right})"
    text = "\n".join([f"whole = F.{loss}(model(data), target{whole})", *lines])
    other = [(f"({right})", _WEIGHTS, True), ("(2 * (DIVISOR))", _WEIGHTS, True)]
    effects = [Effect(text.replace("(DIVISOR)", divisor), words, "", usual) for divisor, words, usual in other]
    effects.append(Effect(text.replace(_SPLIT, _EQUAL), _SMALL))
    effects.append(Effect(text.replace("range(2)", "range(1)"), _TWICE))
    return Move(text, more=[effect for effect in effects if effect.without != text], **more)  # type: ignore[arg-type]


_MEANS, _SUMS, _BOTH_SUMS = ("", "", _SHARE), ("", _SUM, _ALL), (_SUM, _SUM, "1")
_LOOPS = {
    "end-numbers": [_loop("{loss}", *_MEANS, weight=2), _loop("{loss}", *_SUMS, weight=2), _loop("{loss}", *_BOTH_SUMS)],
    "end-labels": [_loop("cross_entropy", *_MEANS), _loop("cross_entropy", *_SUMS)],
    "end-uneven": [_loop("{loss}", *_MEANS, level=2), _loop("{loss}", *_SUMS, level=2)],
    "end-twice": [_loop("{loss}", *_MEANS, passes=2, level=3), _loop("{loss}", *_SUMS, passes=2, level=3)],
    "end-kept": [_loop("cross_entropy", "", "", _KEPT_SHARE, level=3), _loop("cross_entropy", "", _SUM, _KEPT, level=3)],
}  # fmt: skip


def _sizes(draw: Draw, level: int) -> dict[str, object]:
    parts = 2 + draw.below(3)
    equal = parts + draw.below(3)  # at least as many rows as parts, so that as many parts of one row more have room
    is_uneven = level > 1 and draw.below(2) == 1
    chunk = equal + is_uneven
    is_wide = level > 1 and (not is_uneven or draw.below(2) == 1)
    sizes: dict[str, object] = {"parts": parts, "size": equal * parts, "chunk": chunk, "width": 2 + draw.below(14)}
    return sizes | {
        "outputs": 2 + draw.below(3) if is_wide else 1,
        "classes": 2 + draw.below(4),
        "gone": 1 + draw.below(chunk - 1),
    }


def _parts(lines: Sequence[str], data: torch.Tensor) -> Sequence[torch.Tensor]:
    name, number = re.search(r"data\.(\w+)\((\d+)\)", "\n".join(lines)).groups()  # type: ignore[union-attr]
    return getattr(data, name)(int(number))


def _run(lines: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The names of a program when the whole loss is computed, and the text of its loop."""
    at, names = next(at for at, line in enumerate(lines, 1) if line.startswith("whole = ")), space()
    exec("\n".join(lines[:at]), names)
    return names, "\n".join(lines[at:])


def _read(lines: Sequence[str]) -> dict[str, bool]:
    """Which divisors leave the gradient of the whole loss."""
    names, loop = _run(lines)
    parts, weight = len(_parts(lines, names["data"])), names["model"].weight
    divisors = ["1", str(parts), "len(data)", "len(x)", "len(data) / len(x)"]
    if "range(" in loop:
        divisors += ["2", str(2 * parts), "2 * len(data)", "2 * len(data) / len(x)"]
    divisors += [_KEPT, _KEPT_SHARE] if "target[:" in "".join(lines) else [_ALL, _SHARE]
    (whole,) = torch.autograd.grad(names["whole"], weight)
    found = {}
    for divisor in divisors:
        names["model"].zero_grad()
        exec(loop.replace("DIVISOR", divisor), names)
        found[divisor] = torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)
    return found


def _weights(lines: Sequence[str], key: str) -> dict[str, str]:
    """The weight of one number in the whole loss, what the loop gives it, and what that is divided by ``key``."""
    names, loop = _run(lines)
    is_mean, part_is_mean = ("reduction" not in text for text in ("".join(lines).partition("for ")[0], loop))
    passes = 2 if "range(2)" in loop else 1
    pairs = [
        {**names, "x": x, "y": y}
        for x, y in zip(*(_parts(lines, names[name]) for name in ("data", "target")), strict=True)
    ]
    counted = [(one["y"] != -100).sum().item() for one in pairs]
    units = [Fraction(passes, count if part_is_mean else 1) for count in counted]
    divided = [
        unit / Fraction(float(eval(key, one))).limit_denominator(999) for unit, one in zip(units, pairs, strict=True)
    ]
    unit = (
        "number of the target"
        if names["target"].dim() == 2
        else "label that counts"
        if "-100" in "".join(lines)
        else "label"
    )
    start = f"`whole` gives each {unit} the weight {Fraction(1, sum(counted) if is_mean else 1)}"
    return {"start": start, "loop": _words(units), "made": _words(divided), "key": key}


def _words(weights: Sequence[Fraction]) -> str:
    same = len(set(weights)) == 1
    return str(weights[0]) if same else f"{weights[0]} in the first part and {weights[-1]} in the last"


TOPIC = Topic(
    task="Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key is put in the place of `DIVISOR`, "
    "and the program begins from its first line.",
    lessons=("gradient_accumulation",),
    asks={"": Ask("right divisor?", {True: "gives the gradient of `whole`", False: "does not give the gradient of `whole`"},
                  subject="dividing by `{key}`")},
    moves={"numbers": [Move(_NUMBERS)], "labels": [Move(_LABELS)], **_LOOPS,
           "kept": [Move(_LABELS_KEPT, _LABELS_KEPT.replace("] = -100", "] = 0"), _IGNORED)]},
    plans={1: ["numbers end-numbers", "numbers end-numbers", "labels end-labels"],
           2: ["numbers end-uneven"],
           3: ["numbers end-twice", "kept end-kept"]},
    read=_read,
    texts={"loss": ("mse_loss", "l1_loss", "smooth_l1_loss")},
    values=_sizes,
    facts=_weights,
)  # fmt: skip

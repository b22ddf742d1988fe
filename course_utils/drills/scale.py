"""Drills on the scale of accumulated gradients: which divisor gives the gradient of the whole batch? (``write``)"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import torch

from course_utils.drills.programs import CAUSE, MAKER, Draw, Page, Program, Refused
from course_utils.drills.run import execute

TASK = (
    "Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key is put in the place of `DIVISOR`, and the "
    "program begins from its first line."
)
LESSONS = ("gradient_accumulation",)
MARKS = {3: r"-100|range\(2\)"}
_DIVISOR = "DIVISOR"  # what a key stands for in the program
_ELEMENTS = ("mse_loss", "l1_loss", "smooth_l1_loss")
_LEADS = "`whole` gives each {unit} the weight {whole}. The loop gives it {part}{passes} before it divides, and {made} with `{key}`"
_UNEVEN = (
    "`split` leaves a last part that is smaller. `whole` gives each {unit} the weight {whole}; with `{key}` the loop gives it "
    "{made}. Equal parts would have made it right"
)
_IGNORED = (
    "`cross_entropy` leaves out labels of -100, in its mean, too. `whole` gives each {unit} the weight {whole}; with `{key}` "
    "the loop gives it {made}"
)
_PASSES = (
    "The loop sees all the data twice. `whole` gives each {unit} the weight {whole}; with `{key}` the loop gives it {made} over "
    "both"
)


class Batch(Page):
    """A program while it is written.

    Attributes:
        rows: how many rows each part of the data has.
        counted: how many of them have a label that counts.
        units: numbers that a row adds to the loss.
        means: whether the whole loss is a mean, and whether that of a part is.
        passes: how often the loop sees the data.
    """

    def __init__(self, draw: Draw, level: int) -> None:
        super().__init__(draw)
        extra = draw.choice(("ignored", "passes")) if level == 3 else ""
        self.per_row = extra == "ignored" or draw.chance(0.3)
        wide = level > 1 and not self.per_row and draw.chance(0.6)
        even = level == 1 or ((wide or level == 3) and draw.chance(0.5))
        self.means = draw.choice(((True, True), (True, True), (True, False), (True, False), (False, False)))
        self.outputs = 2 + draw.below(3) if self.per_row or wide else 1
        self.units, self.passes = self.outputs if wide else 1, 2 if extra == "passes" else 1
        self.equal, parts = 2 + draw.below(5), 2 + draw.below(4)
        self.size, chunk = self.equal * parts, self.equal + (0 if even else 1 + draw.below(2))
        self.rows = [min(chunk, self.size - start) for start in range(0, self.size, chunk)]
        gone = 1 + draw.below(self.rows[0] - 1) if extra == "ignored" else 0
        self.counted = [self.rows[0] - gone, *self.rows[1:]]
        if len(self.rows) != parts:
            raise Refused("as many equal parts would not be possible, so uneven parts could not be what decides")

    def weights(self, divisors: Sequence[Any]) -> str:
        """The weight that the loop gives to one number, in words: in each part, after dividing."""
        units = [count * self.units if self.means[1] else 1 for count in self.counted]
        made = [
            Fraction(self.passes, unit) / Fraction(float(by)).limit_denominator(999)
            for unit, by in zip(units, divisors, strict=True)
        ]
        return str(made[0]) if len(set(made)) == 1 else f"{made[0]} in the first part and {made[-1]} in the last"


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Batch(draw, level)
    size, width, chunk, gone = page.size, 2 + draw.below(14), page.rows[0], page.rows[0] - page.counted[0]
    data, labels, x, y = page.name(), page.name(), page.name(), page.name()
    page.write(f"{data} = torch.{draw.choice(('randn', 'rand'))}({size}, {width})")
    target = f"torch.randint({page.outputs}, ({size},))" if page.per_row else f"torch.randn({size}, {page.outputs})"
    page.write(f"{labels} = {target}")
    ignored = page.write(f"{labels}[:{gone}] = -100") if gone else 0
    page.write(f"model = nn.Linear({width}, {page.outputs})")
    loss = "cross_entropy" if page.per_row else draw.choice(_ELEMENTS)
    tails = ["" if mean else ', reduction="sum"' for mean in page.means]
    page.write(f"whole = F.{loss}(model({data}), {labels}{tails[0]})")
    again = page.write(f"for _ in range({page.passes}):", run=False) if page.passes > 1 else 0
    indent = "    " * bool(again)
    split = page.write(f"{indent}for {x}, {y} in zip({data}.split({chunk}), {labels}.split({chunk})):", run=False)
    line = page.write(f"{indent}    loss = F.{loss}(model({x}), {y}{tails[1]})", run=False)
    page.write(f"{indent}    (loss / ({_DIVISOR})).backward()", run=False)
    keys, pool = _keys(page, data, labels, x, y)
    read = partial(_read, keys)
    right = next(key for key in keys if read(page.lines)[key])
    for key in keys:
        unit = "number of the output" if page.units > 1 else "row"
        facts = {
            "unit": f"{unit} that counts" if gone else unit,
            "whole": Fraction(1, sum(page.counted) * page.units if page.means[0] else 1),
            "part": page.weights([page.passes] * len(page.rows)),
            "passes": f", {page.passes} times over," if again else "",
            "key": key,
            "made": page.weights(pool[key]),
        }

        def says(at: int, rule: str, without: str, facts: Mapping[str, Any] = facts, **more: Any) -> None:
            page.effect(at, rule.format(**facts), without, facts["key"], **more)

        equal = page.lines[split - 1].strip().replace(f"split({chunk})", f"split({page.equal})")
        if len(set(page.rows)) > 1 and not gone:
            says(split, _UNEVEN, equal, answers=(False,))
        if gone:
            says(ignored, _IGNORED, "pass", answers=(False,))
        if again:
            says(again, _PASSES, page.lines[again - 1].replace("2", "1"), answers=(False,))
        text = page.lines[line - 1].strip().removeprefix("loss = ")
        larger = "Were the loss of a part {} times as large,"
        says(line, _LEADS, f"loss = 2 * {text}", answers=(True,), rank=MAKER, instead=larger.format("2"))
        times = larger.format(f"`({key}) / ({right})`")
        says(line, _LEADS, f"loss = {text} / ({right}) * ({key})", answers=(False,), rank=MAKER, instead=times)
        gives = {True: "gives", False: "does not give"}
        page.ask(
            key, "right divisor?", lambda yes, key=key: f"dividing by `{key}` {gives[yes]} the gradient of `whole`"
        )
    return page.finish(read, least=3, most=4)


def _keys(page: Batch, data: str, labels: str, x: str, y: str) -> tuple[list[str], dict[str, list[Any]]]:
    """What may be divided by, some of it right, some wrong; and what each of them is in each part."""
    draw, count, times = page.draw, len(page.rows), f"{page.passes} * " if page.passes > 1 else ""
    texts = ["1", str(count), f"len({data})", f"{data}.shape[0]", f"len({x})"]
    texts += [f"len({data}) / len({x})", f"{data}.shape[0] / {x}.shape[0]"]
    if page.passes > 1:
        texts += [str(page.passes), str(page.passes * count), f"{times}len({data})", f"{times}len({data}) / len({x})"]
        texts += [f"{data}.shape[0] / {x}.shape[0] * 2"]
    else:
        texts += [f"{labels}.numel()", f"{labels}.numel() / {y}.numel()"]
    if page.units > 1:
        texts.append(f"{times}{labels}.numel()")
    if page.counted != page.rows:
        texts += [f"({labels} >= 0).sum()", f"({labels} >= 0).sum() / ({y} >= 0).sum()"]
        texts += [f"({labels} != -100).sum()", f"({labels} != -100).sum() / ({y} != -100).sum()"]
    parts = [
        page.space | dict(zip((x, y), part, strict=True))
        for part in zip(*(page.space[name].split(page.rows[0]) for name in (data, labels)), strict=True)
    ]
    pool = {text: [eval(text, part) for part in parts] for text in dict.fromkeys(texts)}
    found = _read(list(pool), page.lines)
    right = [key for key in pool if found[key]]
    # That 1 is wrong is asked as often as that it is right.
    wrong = [key for key in pool if not found[key] and (key != "1" or draw.chance(0.25))]
    if not right:
        raise Refused("no divisor is right")
    chosen = draw.sample(right, min(len(right), 2))
    chosen += draw.sample(wrong, min(len(wrong), 4 - len(chosen)))
    return draw.sample(chosen, len(chosen)), pool


def _read(keys: Sequence[str], lines: Sequence[str]) -> dict[str, bool]:
    """Which divisors leave the gradient of the whole loss."""
    return {key: _is_whole([line.replace(_DIVISOR, key) for line in lines]) for key in keys}


def _is_whole(lines: Sequence[str]) -> bool:
    names = execute(lines)
    weight = names["model"].weight
    (whole,) = torch.autograd.grad(names["whole"], weight)
    return torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)

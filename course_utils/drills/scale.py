"""Drills on the scale of accumulated gradients: which divisor gives the gradient of the whole batch? (``write``)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import torch

from course_utils.drills.page import Asked, Page, Refused, Rules
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import MAKER, Effect, rules
from course_utils.drills.run import execute
from course_utils.drills.texts import grammar

TASK = (
    "Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key is put in the place of `DIVISOR`, "
    "and the program begins from its first line."
)
LESSONS = ("gradient_accumulation",)
MARKS = {3: r"-100|range\(2\)"}
_GRAMMAR = grammar(r"""
start:
    $d = torch.<<randn|rand>>(<<size>>, <<width>>)
    $t = <<target>>
    <<ignored>>
    model = nn.Linear(<<width>>, <<outputs>>)
    whole = F.<<loss>>(model($d), $t<<whole tail>>)
numbers: torch.randn(<<size>>, <<outputs>>)
classes: torch.randint(<<outputs>>, (<<size>>,))
elements: <<mse_loss|l1_loss|smooth_l1_loss>>
parts: zip($d.split(<<chunk>>), $t.split(<<chunk>>))
once:
    for $x, $y in <<parts>>:
        loss = F.<<loss>>(model($x), $y<<part tail>>)
        (loss / (DIVISOR)).backward()
twice:
    for _ in range(2):
        <<once>>
""")


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    extra = draw.choice(("ignored", "passes")) if level == 3 else ""
    per_row = extra == "ignored" or draw.chance(0.3)
    wide = level > 1 and not per_row and draw.chance(0.6)
    outputs, equal, parts = 2 + draw.below(3) if per_row or wide else 1, 2 + draw.below(5), 2 + draw.below(4)
    chunk = equal + (level > 1 and (not (wide or level == 3) or draw.chance(0.5))) * (1 + draw.below(2))
    rows = [min(chunk, equal * parts - start) for start in range(0, equal * parts, chunk)]
    if len(rows) != parts:
        raise Refused("as many equal parts would not be possible, so uneven parts could not be what decides")
    gone = 1 + draw.below(rows[0] - 1) if extra == "ignored" else 0
    batch = _Batch(
        # Where both are sums, 1 is right, however the parts differ: that is for level 1.
        draw.choice([(True, True), (True, True), (True, False), (True, False), (False, False)][: 4 + (level == 1)]),
        [rows[0] - gone, *rows[1:]],
        outputs if wide else 1,
        2 if extra == "passes" else 1,
    )
    tails = ["" if mean else ', reduction="sum"' for mean in batch.means]
    more = {
        **{"size": equal * parts, "width": 2 + draw.below(14), "outputs": outputs, "chunk": chunk},
        **{"whole tail": tails[0], "part tail": tails[1], "ignored": f"$t[:{gone}] = -100" if gone else ""},
        **{"target": "<<classes>>" if per_row else "<<numbers>>"},
        "loss": "cross_entropy" if per_row else draw.choice(("mse_loss", "l1_loss", "smooth_l1_loss")),
    }
    page = Page(draw, _GRAMMAR, {name: str(text) for name, text in more.items()})
    page.add("<<start>>")
    page.add("<<twice>>" if batch.passes > 1 else "<<once>>", run=False)
    pool = _pool(page, batch, chunk)
    found = _read(list(pool), page.lines)
    right = [key for key in pool if found[key]]
    # That 1 is wrong is asked as often as that it is right.
    wrong = [key for key in pool if not found[key] and (key != "1" or draw.chance(0.25))]
    if not right:
        raise Refused("no divisor is right")
    chosen = draw.sample(right, min(len(right), 2))
    chosen += draw.sample(wrong, min(len(wrong), 4 - len(chosen)))
    keys = draw.sample(chosen, len(chosen))
    page.facts_of = {key: batch.facts(key, pool[key], gone) | {"holds": found[key]} for key in keys}
    page.facts = {"equal": equal, "right": right[0]}
    says = {True: "gives the gradient of `whole`", False: "does not give the gradient of `whole`"}
    asked = [Asked(key, "right divisor?", says, subject=f"dividing by `{key}`") for key in keys]
    return page.finish(asked, _RULES, partial(_read, keys), most=4)


@dataclass
class _Batch:
    """What decides how much a part of the data counts.

    Attributes:
        means: whether the whole loss is a mean, and whether that of a part is.
        counted: how many rows of each part have a label that counts.
        units: numbers that a row adds to the loss.
        passes: how often the loop sees the data.
    """

    means: tuple[bool, bool]
    counted: list[int]
    units: int
    passes: int

    def facts(self, key: str, divisors: Sequence[Any], gone: int) -> dict[str, Any]:
        """What the words of rules say of one number: its weight in the whole loss, and what the loop gives it."""
        unit, whole = "number of the output" if self.units > 1 else "row", sum(self.counted) * self.units
        weight = Fraction(1, whole if self.means[0] else 1)
        start = f"`whole` gives each {unit}{' that counts' * bool(gone)} the weight {weight}"
        times = f", {self.passes} times over," if self.passes > 1 else ""
        loop = f"The loop gives it {self._weights([self.passes] * len(self.counted))}{times} before it divides"
        return {"start": start, "loop": loop, "made": self._weights(divisors), "key": key}

    def _weights(self, divisors: Sequence[Any]) -> str:
        """The weight that the loop gives to one number over all, in words."""
        units = [count * self.units if self.means[1] else 1 for count in self.counted]
        by = [Fraction(float(divisor)).limit_denominator(999) for divisor in divisors]
        made = [Fraction(self.passes, unit) / one for unit, one in zip(units, by, strict=True)]
        return str(made[0]) if len(set(made)) == 1 else f"{made[0]} in the first part and {made[-1]} in the last"


def _pool(page: Page, batch: _Batch, chunk: int) -> dict[str, list[Any]]:
    """What may be divided by, and what that is in each part."""
    d, t, x, y = (page.name(letter) for letter in "dtxy")
    texts = ["1", str(len(batch.counted)), f"len({d})", f"{d}.shape[0]", f"len({x})"]
    texts += [f"len({d}) / len({x})", f"{d}.shape[0] / {x}.shape[0]"]
    if batch.passes > 1:
        texts += ["2", str(2 * len(batch.counted)), f"2 * len({d})", f"2 * len({d}) / len({x})"]
        texts.append(f"{d}.shape[0] / {x}.shape[0] * 2")
    else:
        texts += [f"{t}.numel()", f"{t}.numel() / {y}.numel()"]
    if batch.units > 1:
        texts.append(f"{'2 * ' * (batch.passes > 1)}{t}.numel()")
    for counts in (">= 0", "!= -100") if "-100" in page.lines[2] else ():
        texts += [f"({t} {counts}).sum()", f"({t} {counts}).sum() / ({y} {counts}).sum()"]
    parts = zip(page.space[d].split(chunk), page.space[t].split(chunk), strict=True)
    spaces = [{**page.space, x: one, y: two} for one, two in parts]
    return {text: [eval(text, space) for space in spaces] for text in dict.fromkeys(texts)}


def _read(keys: Sequence[str], lines: Sequence[str]) -> dict[str, bool]:
    """Which divisors leave the gradient of the whole loss."""
    return {key: _is_whole([line.replace("DIVISOR", key) for line in lines]) for key in keys}


def _is_whole(lines: Sequence[str]) -> bool:
    names = execute(lines)
    weight = names["model"].weight
    (whole,) = torch.autograd.grad(names["whole"], weight)
    return torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)


def _leads(page: Page, line: int, key: str) -> Effect | None:
    """The loss of a part: were it larger by what the divisor is off, the answer would be another one."""
    start, _, loss = page.lines[line - 1].partition("loss = ")
    if not loss or start.strip():
        return None
    facts, right = page.facts_of[key], page.facts["right"]
    words = f"{facts['start']}. {facts['loop']}, and {facts['made']} with `{key}`"
    pair = [f"({text})" if " " in text else text for text in (key, right)]
    times = "2" if facts["holds"] else key if right == "1" else " / ".join(pair)
    lines = (*page.lines[: line - 1], f"{start}loss = {loss} * ({times})", *page.lines[line:])
    return Effect(line, words, lines, MAKER, instead=f"Were the loss of a part `{times}` times as large,")


_RULES: Rules = (
    *rules(r"""
[answer:False] (for .*zip\()(\w+)(\.split\(\d\)), (\w+)\.split\(\d\)
    -> \1\2.tensor_split(len(\2\3)), \4.tensor_split(len(\2\3))
    with: With parts of {equal} rows each
    `split` leaves a last part that is smaller. {start}; with `{key}` the loop gives it {made}. Equal parts would have
    made it right
[answer:False] N\w+\[:\d\] = -100
    `cross_entropy` leaves out labels of -100, in its mean, too. {start}; with `{key}` the loop gives it {made}
[answer:False] for _ in range\(2\) -> for _ in range(1)
    The loop sees all the data twice. {start}; with `{key}` the loop gives it {made} over both
"""),
    _leads,
)

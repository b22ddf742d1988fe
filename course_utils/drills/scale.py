"""Drills on the scale of accumulated gradients: which divisor gives the gradient of the whole batch? (``write``)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from course_utils.drills.programs import Draw, Page, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer

DIVISOR = "DIVISOR"  # what a key stands for in the program
_ELEMENTS = ("mse_loss", "l1_loss", "smooth_l1_loss")
_KEYS = 4


@dataclass(frozen=True)
class _Batch:
    """What decides how much a part of the data counts.

    Attributes:
        rows: how many rows each part has.
        counted: how many of them have a label that counts.
        units: numbers that a row adds to the loss.
        means: whether the whole loss is a mean, and whether that of a part is.
        passes: how often the loop sees the data.
    """

    rows: tuple[int, ...]
    counted: tuple[int, ...]
    units: int
    means: tuple[bool, bool]
    passes: int

    @property
    def whole(self) -> Fraction:
        """The weight of one number in the whole loss."""
        return Fraction(1, sum(self.counted) * self.units if self.means[0] else 1)

    def part(self, divisors: Sequence[Fraction]) -> list[Fraction]:
        """The weight that the loop gives to one number, in each part."""
        weights = [Fraction(1, count * self.units if self.means[1] else 1) for count in self.counted]
        return [self.passes * weight / divisor for weight, divisor in zip(weights, divisors, strict=True)]

    def right(self, divisors: Sequence[Fraction]) -> bool:
        return all(weight == self.whole for weight in self.part(divisors))


def _batch(draw: Draw, even: bool, units: int, means: tuple[bool, bool], passes: int, ignored: bool) -> _Batch | None:
    chunk, parts = 2 + draw.below(5), 2 + draw.below(4)
    size = chunk * parts
    if not even:
        chunk += 1 + draw.below(2)
    rows = tuple(min(chunk, size - start) for start in range(0, size, chunk))
    gone = 1 + draw.below(rows[0] - 1) if ignored else 0
    # As many equal parts would be possible, so that uneven parts can be what decides.
    return _Batch(rows, (rows[0] - gone, *rows[1:]), units, means, passes) if len(rows) == parts else None


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        extra = draw.choice(("ignored", "passes")) if level == 3 else ""
        per_row = extra == "ignored" or draw.chance(0.3)
        wide = level > 1 and not per_row and draw.chance(0.6)
        even = level == 1 or ((wide or level == 3) and draw.chance(0.5))
        means = draw.choice(((True, True), (True, True), (True, False), (True, False), (False, False)))
        outputs = 2 + draw.below(3) if per_row or wide else 1
        batch = _batch(draw, even, outputs if wide else 1, means, 2 if extra == "passes" else 1, extra == "ignored")
        if batch and (program := _write(Page(draw), batch, outputs, per_row)) is not None:
            return program


def _write(page: Page, batch: _Batch, outputs: int, per_row: bool) -> Program | None:
    draw, size, width = page.draw, sum(batch.rows), 2 + page.draw.below(14)
    data, labels = page.name(), page.name()
    gone = batch.rows[0] - batch.counted[0]
    target = f"torch.randint({outputs}, ({size},))" if per_row else f"torch.randn({size}, {outputs})"
    page.write(f"{data} = torch.{draw.choice(('randn', 'rand'))}({size}, {width})")
    page.write(f"{labels} = {target}")
    ignored = page.write(f"{labels}[:{gone}] = -100") if gone else 0
    page.write(f"model = nn.Linear({width}, {outputs})")
    loss = "cross_entropy" if per_row else draw.choice(_ELEMENTS)
    tails = ["" if mean else ', reduction="sum"' for mean in batch.means]
    page.write(f"whole = F.{loss}(model({data}), {labels}{tails[0]})")
    x, y = page.name(), page.name()

    def loop() -> tuple[int, int]:
        pairs = f"zip({data}.split({batch.rows[0]}), {labels}.split({batch.rows[0]}))"
        with page.block(f"for {x}, {y} in {pairs}:") as split:
            line = page.write(f"loss = F.{loss}(model({x}), {y}{tails[1]})")
            page.write(f"(loss / ({DIVISOR})).backward()")
        return split, line

    if batch.passes > 1:
        with page.block(f"for _ in range({batch.passes}):") as again:
            split, line = loop()
    else:
        again = 0
        split, line = loop()
    keys = _keys(draw, batch, data, labels, x, y)
    if keys is None or not page.fits:
        return None
    names, questions = page.names(), []
    for key, divisors in keys:
        reason = _reason(batch, key, divisors, split, line, ignored, again)
        answer = batch.right(divisors)
        then = f"dividing by `{key}` {'gives' if answer else 'does not give'} the gradient of `whole`"
        text = named(explain_answer(reason, then), names)
        questions.append(Question(named(key, names), answer, reason.line, reason.rule, text))
    return Program(tuple(named(row, names) for row in page.lines), tuple(questions))


def _keys(
    draw: Draw, batch: _Batch, data: str, labels: str, x: str, y: str
) -> list[tuple[str, Sequence[Fraction]]] | None:
    """What may be divided by: some of it right, some wrong."""
    rows, count = [Fraction(row) for row in batch.rows], len(batch.rows)
    size, times = sum(rows), f"{batch.passes} * " if batch.passes > 1 else ""

    def each(number: int | Fraction) -> list[Fraction]:
        return [Fraction(number)] * count

    pool = {
        "1": each(1),
        str(count): each(count),
        f"len({data})": each(size),
        f"len({x})": rows,
        f"len({data}) / len({x})": [size / row for row in rows],
    }
    if batch.passes > 1:
        pool[str(batch.passes)] = each(batch.passes)
        pool[str(batch.passes * count)] = each(batch.passes * count)
        pool[f"{times}len({data})"] = each(batch.passes * size)
        pool[f"{times}len({data}) / len({x})"] = [batch.passes * size / row for row in rows]
    else:
        pool[f"{labels}.numel()"] = each(size * batch.units)
        pool[f"{labels}.numel() / {y}.numel()"] = [size / row for row in rows]
    if batch.units > 1:
        pool[f"{times}{labels}.numel()"] = each(batch.passes * size * batch.units)
    if batch.counted != batch.rows:
        total, counted = sum(batch.counted), [Fraction(number) for number in batch.counted]
        pool[f"({labels} >= 0).sum()"] = each(total)
        pool[f"({labels} >= 0).sum() / ({y} >= 0).sum()"] = [total / number for number in counted]
    right = [key for key in pool if batch.right(pool[key])]
    wrong = [key for key in pool if key not in right]
    if not right or len(pool) < _KEYS:
        return None
    chosen = draw.sample(right, min(len(right), 1 + draw.below(2)))
    # That 1 is wrong is asked as often as that it is right.
    wrong = [key for key in wrong if key != "1" or draw.chance(0.3)]
    chosen += draw.sample(wrong, min(len(wrong), _KEYS - len(chosen)))
    return [(key, pool[key]) for key in draw.sample(chosen, len(chosen))] if len(chosen) > 2 else None


def _reason(
    batch: _Batch, key: str, divisors: Sequence[Fraction], split: int, line: int, ignored: int, again: int
) -> Reason:
    unit = "number of the output" if batch.units > 1 else "row"
    facts = {
        "unit": f"{unit} that counts" if ignored else unit,
        "whole": str(batch.whole),
        "part": _weights(batch.part([Fraction(batch.passes)] * len(batch.rows))),
        "key": f"`{key}`",
        "made": _weights(batch.part(divisors)),
        "passes": f", {batch.passes} times over," if again else "",
        "line": str(line),
    }
    if batch.right(divisors):
        return Reason(line, "same weight", facts)
    count, size = len(batch.rows), sum(batch.rows)
    even = _Batch((size // count,) * count, (size // count,) * count, batch.units, batch.means, batch.passes)
    if not ignored and len(set(batch.rows)) > 1 and len(set(divisors)) == 1 and even.right(divisors):
        return Reason(split, "uneven", facts)
    if ignored and _Batch(batch.rows, batch.rows, batch.units, batch.means, batch.passes).right(divisors):
        return Reason(ignored, "ignored", facts)
    if again and _Batch(batch.rows, batch.counted, batch.units, batch.means, 1).right(divisors):
        return Reason(again, "passes", facts)
    return Reason(line, "other weight", facts)


def _weights(weights: Sequence[Fraction]) -> str:
    if len(set(weights)) == 1:
        return str(weights[0])
    return f"{weights[0]} in the first part and {weights[-1]} in the last"

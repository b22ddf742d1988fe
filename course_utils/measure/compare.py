"""Side by side: what alternatives cost in FLOPs, bytes and time (``compare``).

Three separate measurements of the same calls, because watching bytes or counting operations takes time: FLOPs by
``torch.utils.flop_counter``, bytes by ``MemoryTracker``, and times of interleaved runs as ratios, since a ratio holds
on another machine where seconds do not.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from course_utils.base import explain
from course_utils.base.text import columns, describe, format_bytes, markdown_table
from course_utils.measure import FlopCounterMode, in_turns
from course_utils.memory import MemoryTracker
from course_utils.record import UNCOMPILED


@dataclass(frozen=True)
class Cost:
    """What one alternative costs.

    Attributes:
        name: its name.
        flops: floating-point operations of one call, of matrix products, convolutions and, on a GPU, fused attention
            (on the CPU, ``scaled_dot_product_attention`` counts 0); everything else counts 0.
        peak_bytes: the most bytes alive during the call, above those before it.
        held_bytes: bytes alive after the call, while its result is held: the result and the graph behind it, and what
            the call left elsewhere, such as gradients.
        time_ratio: its time over the baseline's, the median over the rounds; None where times were not taken.
        wall_seconds: median seconds of one call; None where times were not taken.
    """

    name: str
    flops: int
    peak_bytes: int
    held_bytes: int
    time_ratio: float | None = None
    wall_seconds: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What alternatives cost, side by side. ``comparison["name"]`` is one alternative's ``Cost``.

    Attributes:
        costs: one for each alternative, in the order given.
        baseline: the name of the alternative that ratios refer to.
        rounds: how often each was timed; 0 where times were not taken.
    """

    costs: tuple[Cost, ...]
    baseline: str
    rounds: int

    def __getitem__(self, name: str) -> Cost:
        costs = {cost.name: cost for cost in self.costs}
        if name not in costs:
            raise KeyError(explain(f"comparison[{name!r}] was asked for.", f"one of {', '.join(costs)}."))
        return costs[name]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers, for JSON."""
        return asdict(self)

    def to_markdown(self, *, times: bool = True) -> str:
        """A table for a page. ``times=False`` leaves out what differs from run to run."""
        return markdown_table(self._rows(times))

    def to_text(self, *, times: bool = True) -> str:
        """A table for a terminal. ``times=False`` leaves out what differs from run to run."""
        return columns(self._rows(times))

    def _rows(self, times: bool) -> list[list[str]]:
        timed = times and self.rounds > 0
        rows = [["alternative", "FLOPs", "peak", "held", *(["time"] if timed else [])]]
        for cost in self.costs:
            row = [cost.name, format_count(cost.flops), format_bytes(cost.peak_bytes), format_bytes(cost.held_bytes)]
            if timed:
                row.append("" if cost.time_ratio is None else f"{cost.time_ratio:.2f}x")
            rows.append(row)
        return rows

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


def format_count(count: int) -> str:
    """A count for reading, in powers of 1000.

    Example:
        >>> format_count(0), format_count(999), format_count(1_230_000)
        ('0', '999', '1.23 M')
    """
    value, unit = float(count), 0
    while abs(value) >= 999.5 and unit < 5:
        value /= 1000
        unit += 1
    return str(count) if unit == 0 else f"{value:.3g} {' kMGTP'[unit]}"


def compare(
    alternatives: Mapping[str, Callable[[], Any]],
    *known: Any,
    baseline: str = "",
    before: Callable[[], Any] | None = None,
    rounds: int = 15,
) -> Comparison:
    """Measures alternatives against each other.

    Each call sees the same random numbers, and the caller's own stream of them is not moved on. Each alternative is
    called once for its bytes, once for its FLOPs, and in each round for times, so it should leave no state behind. What
    it returns is not compared. Code made by ``torch.compile`` runs uncompiled, for its times too.

    Args:
        alternatives: functions without arguments, by name.
        *known: modules, optimizers and tensors that the functions use; see ``MemoryTracker``.
        baseline: the name of the alternative that times are divided by; the first by default.
        before: called before each call and not measured, for example to clear gradients.
        rounds: how often each is timed, in turns; 0 to leave times out, so that the result is the same in every run.

    Returns:
        One ``Cost`` for each alternative, by name: ``flops``, ``peak_bytes`` and ``held_bytes`` of one call, and
        ``time_ratio`` to the baseline. It prints as a table.

    Raises:
        TypeError: ``alternatives`` is no mapping, or one of them cannot be called.
        ValueError: there are none, or ``baseline`` is none of them.

    Example:
        >>> x = torch.ones(64, 64)
        >>> print(compare({"once": lambda: x @ x, "twice": lambda: x @ x @ x}, x, rounds=0))
        alternative   FLOPs      peak      held
        once          524 k  16.0 KiB  16.0 KiB
        twice        1.05 M  32.0 KiB  16.0 KiB
    """
    _check(alternatives, baseline)
    baseline = baseline or next(iter(alternatives))
    flops, peaks, held, ratios, seconds = {}, {}, {}, {}, {}
    devices = [*range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices), UNCOMPILED.on():

        def prepare() -> None:
            torch.default_generator.manual_seed(0)
            if devices:
                torch.cuda.manual_seed_all(0)
            if before is not None:
                before()

        for name, function in alternatives.items():
            prepare()
            with MemoryTracker(*known) as memory:
                result = function()
                peaks[name], held[name] = memory.peak, memory.current
            del result
            prepare()
            with FlopCounterMode(display=False) as counter:
                function()
            flops[name] = counter.get_total_flops()
        if rounds > 0:
            taken = in_turns(alternatives, rounds, prepare)
            for name, times in taken.items():
                seconds[name] = statistics.median(times)
                ratios[name] = statistics.median(a / b for a, b in zip(times, taken[baseline], strict=True))
    costs = tuple(
        Cost(name, flops[name], peaks[name], held[name], ratios.get(name), seconds.get(name)) for name in alternatives
    )
    return Comparison(costs, baseline, rounds)


def _check(alternatives: object, baseline: str) -> None:
    if not isinstance(alternatives, Mapping):
        did, example = f"compare was given {describe(alternatives)}.", 'compare({"multiply": first, "skip": second})'
        raise TypeError(explain(did, "a dictionary of names and functions.", try_this=example))
    if not alternatives:
        raise ValueError(explain("compare was given no alternatives.", "at least one function, with a name."))
    for name, function in alternatives.items():
        if not callable(function):
            did, why = f"The alternative {name!r} is {describe(function)}.", "it is called for FLOPs, bytes and times."
            raise TypeError(explain(did, "a function without arguments.", why, f"{{{name!r}: lambda: ...}}"))
    if baseline and baseline not in alternatives:
        names = ", ".join(alternatives)
        raise ValueError(explain(f"compare(baseline={baseline!r}) was called.", f"one of {names}."))

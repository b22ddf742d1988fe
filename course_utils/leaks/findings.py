"""What a watch found, as plain data (``GrowthReport``, ``Finding``)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_utils.base.user_code import Site
from course_utils.draw.lines import plot_lines
from course_utils.holders.holder import Holder
from course_utils.leaks.card import report_html
from course_utils.leaks.verdict import Rate
from course_utils.leaks.words import report_text


@dataclass(frozen=True)
class Made:
    """What one line makes that stays.

    Attributes:
        site: the line.
        bytes_per_call: what it leaves behind a call, of what this holder keeps.
    """

    site: Site
    bytes_per_call: int


@dataclass(frozen=True)
class Finding:
    """Something that keeps more with every call.

    Attributes:
        holder: who keeps it.
        line: the line that puts it there; None where the source does not show it.
        made: the lines that made it, the greatest share first.
        rate: bytes a call.
        graph_bytes: bytes a call of ``rate`` that a recorded graph keeps.
        saved: what operations saved, as "Addmm (mat1) f32[64, 128]", and bytes a call, the greatest first.
        training: it grows in calls that a backward pass follows.
        scalar: the holder has tensors of one element in its hands.
        direct: the tensors are themselves in the holder, not inside of what is in it.
        inside: where they lie in each thing in the holder otherwise: ``.log_prob``, ``["loss"]``.
        also: others who would keep them if the holder did not, and their lines.
        error: exceptions keep them, by their tracebacks.
        history: the holder's tensors have a history, even if backward has freed what that had saved.
        given_back: it was given back when a loop ended, and grew anew.
        series: bytes kept when each call began: (call, bytes).
        nodes: nodes a call that its graph grows by, where no bytes of tensors grow with it; 0 elsewhere.
    """

    holder: Holder
    line: Site | None
    made: tuple[Made, ...]
    rate: Rate
    graph_bytes: int
    saved: tuple[tuple[str, int], ...]
    training: bool
    scalar: bool
    direct: bool = False
    inside: tuple[str, ...] = ()
    also: tuple[tuple[Holder, Site | None], ...] = ()
    error: bool = False
    history: bool = False
    given_back: bool = False
    series: tuple[tuple[int, int], ...] = ()
    nodes: int = 0


@dataclass(frozen=True)
class Quiet:
    """Something that was kept and is no leak.

    Attributes:
        holder: who keeps it, ``NOBODY`` where nobody was looked for.
        sites: the lines that made it.
        why: in words.
        nbytes: bytes kept at the end.
    """

    holder: Holder
    sites: tuple[Site, ...]
    why: str
    nbytes: int


@dataclass(frozen=True)
class Part:
    """Training, or evaluation.

    Attributes:
        name: "training" or "evaluation".
        calls: how many calls of it there were.
        verdict: "steady", "bounded", "growing", or "too few calls".
        rate: bytes a call that all findings keep together; None unless growing.
        findings: what grows.
        quiet: what does not, though something stays.
    """

    name: str
    calls: int
    verdict: str
    rate: Rate | None
    findings: tuple[Finding, ...] = ()
    quiet: tuple[Quiet, ...] = ()


@dataclass(frozen=True, repr=False)
class GrowthReport:
    """What a watch found; see ``watch_growth``.

    Attributes:
        calls: how many calls began.
        modules: how often each class of module was called, or ``BACKWARD_PASS``.
        training: calls that a backward pass followed.
        evaluation: calls that none followed.
        alive_bytes: bytes alive at the end that the watch knows of.
        allocated_bytes: what the CUDA allocator says beside it; None without CUDA.
        limit_bytes: the memory that can fill up; None where no limit is known.
        unwatched: what happened that the watch could not see, in words.
        every: one call in so many was watched.
        chains: variables whose graph grows by nodes alone; ``verdict`` and ``findings`` speak of bytes.
        totals: bytes kept by what outlived its call: (call, bytes) where they changed.
    """

    calls: int
    modules: Mapping[str, int]
    training: Part
    evaluation: Part
    alive_bytes: int
    allocated_bytes: int | None
    limit_bytes: int | None
    unwatched: tuple[str, ...] = ()
    every: int = 1
    chains: tuple[Finding, ...] = ()
    totals: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> str:
        """ "growing" if training or evaluation grows; else "bounded", "steady" or "too few calls"."""
        verdicts = (self.training.verdict, self.evaluation.verdict)
        for verdict in ("growing", "bounded", "steady"):
            if verdict in verdicts:
                return verdict
        return "too few calls"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that grows, the most bytes a call first."""
        return tuple(sorted(self.training.findings + self.evaluation.findings, key=lambda found: -found.rate.nbytes))

    def calls_until_full(self, part: Part) -> int | None:
        """How many more calls of a part the memory has room for.

        Args:
            part: ``report.training`` or ``report.evaluation``.

        Returns:
            A number of calls, at least 0; None where nothing grows or no limit is known.
        """
        if part.rate is None or self.limit_bytes is None:
            return None
        return max(0, self.limit_bytes - self.alive_bytes) // max(1, part.rate.nbytes)

    def plot(self, ax: Any = None) -> Any:
        """Draws the bytes kept over the calls: in all, and for each of up to five holders of what grows.

        Args:
            ax: axes to draw into; by default a figure of its own.

        Returns:
            The drawing, with the figure in words; see ``plot_lines``.

        Raises:
            ValueError: no call was seen.
        """
        calls = list(range(1, self.calls + 1))
        lines = {"all that outlives its call": _filled(self.totals, calls)}
        for found in self.findings[:5]:
            lines[found.holder.name or "not found"] = _filled(found.series, calls)
        return plot_lines(lines, x="call", y="bytes kept", title=f"Memory from call to call: {self.verdict}", ax=ax)

    def __str__(self) -> str:
        return report_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return report_html(self)


def _filled(changes: tuple[tuple[int, int], ...], calls: list[int]) -> list[int]:
    """The bytes at every call, from those at the calls where they changed."""
    values: list[int] = []
    known = dict(changes)
    for call in calls:
        values.append(known.get(call, values[-1] if values else 0))
    return values

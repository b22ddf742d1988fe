"""What a watch found, as plain data (``GrowthReport``, ``Finding``)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from course_utils.base.user_code import NOWHERE, Site
from course_utils.draw.lines import plot_lines
from course_utils.draw.page import Drawing
from course_utils.holders.holder import Holder
from course_utils.leaks.card import report_html
from course_utils.leaks.nodes import NODE_BYTES
from course_utils.leaks.process import ProcessGrowth
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
class Grown:
    """The calls over which something grew.

    Attributes:
        first: the first of them.
        last: the last of them.
        peak: bytes in all, at most.
        goes_on: it has not been given back.
        times: how often it was given back.
        given_back_at: the user's line that was running when it was.
    """

    first: int
    last: int
    peak: int
    goes_on: bool
    times: int = 0
    given_back_at: Site = NOWHERE


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
        error: exceptions keep them, by their tracebacks.
        history: the holder's tensors have a history, even if backward has freed what that had saved.
        series: bytes kept when each call began: (call, bytes).
        nodes: nodes of graphs a call that stay with it.
        needed_later: a backward pass that comes some calls later needs it.
        joined: it is one tensor that takes in more.
        grown: the calls over which it grew.
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
    error: bool = False
    history: bool = False
    series: tuple[tuple[int, int], ...] = ()
    nodes: int = 0
    needed_later: bool = False
    joined: bool = False
    grown: Grown | None = None

    @property
    def host_bytes(self) -> int:
        """Bytes a call with those of nodes that hold nothing, each at ``NODE_BYTES``."""
        return self.rate.nbytes + (0 if self.graph_bytes else NODE_BYTES * self.nodes)

    @property
    def given_back(self) -> bool:
        """It was given back, whether or not it grew anew."""
        return self.grown is not None and (self.grown.times > 0 or not self.grown.goes_on)


@dataclass(frozen=True)
class Quiet:
    """Something that was kept and is no leak.

    Attributes:
        holder: who keeps it, ``NOBODY`` where nobody was looked for.
        sites: the lines that made it.
        why: in words.
        nbytes: bytes kept at the end.
        grown: the calls over which it grew, where it was given back.
        line: the line that keeps it, where it grew and was given back.
    """

    holder: Holder
    sites: tuple[Site, ...]
    why: str
    nbytes: int
    grown: Grown | None = None
    line: Site | None = None


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
        totals: bytes kept by what outlived its call: (call, bytes) where they changed.
        rounds_at: where a round of the user's loop begins, where neither calls nor gradients tell.
        process: how the process itself grew, where tensors do not explain it.
    """

    calls: int
    modules: Mapping[str, int]
    training: Part
    evaluation: Part
    alive_bytes: int
    allocated_bytes: int | None
    limit_bytes: int | None
    unwatched: tuple[str, ...] = ()
    totals: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    process: ProcessGrowth | None = None
    rounds_at: Site | None = None

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
        return tuple(sorted(self.training.findings + self.evaluation.findings, key=lambda found: -found.host_bytes))

    @property
    def chains(self) -> tuple[Finding, ...]:
        """Of ``findings``, variables whose graph grows by nodes alone."""
        return tuple(found for found in self.findings if not found.rate.nbytes)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {"verdict": self.verdict, **asdict(self)}

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

    def plot(self) -> Drawing:
        """Draws the bytes kept over the calls: in all, and for each of up to five holders of what grows.

        Returns:
            The drawing, with the figure in words; see ``plot_lines``.

        Raises:
            ValueError: no call was seen.
        """
        calls = list(range(1, self.calls + 1))
        lines = {"all that outlives its call": _filled(self.totals, calls)}
        for found in self.findings[:5]:
            lines[found.holder.name or "not found"] = _filled(found.series, calls)
        return plot_lines(lines, x="call", y="bytes kept", title=f"Memory from call to call: {self.verdict}")

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

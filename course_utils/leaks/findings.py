"""What a watch found, as plain data (``GrowthReport``, ``Finding``)."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from course_utils.base.document import Block, Shown
from course_utils.base.user_code import Site
from course_utils.draw.lines import plot_lines
from course_utils.draw.page import Drawing
from course_utils.holders.holder import Holder
from course_utils.leaks.kept import Stretch
from course_utils.leaks.nodes import NODE_BYTES
from course_utils.leaks.words import report_card


@dataclass(frozen=True)
class Made:
    """A line, and the bytes of what it made: of what a holder keeps, those of a call."""

    site: Site
    nbytes: int


@dataclass(frozen=True)
class Grew:
    """How the bytes alive, or the process, grew from one call to another, whatever made them."""

    nbytes: int
    first: int
    last: int
    named: int  # how much of it is told of by name; of a process, how much tensors and nodes explain
    rest: tuple[Made, ...] = ()  # the lines that made most of what is not

    @property
    def all_named(self) -> bool:
        """Whether nothing of note is missing."""
        return self.named >= 0.9 * self.nbytes


@dataclass(frozen=True)
class Rate:
    """Bytes a call: the mean over calls of one kind."""

    nbytes: int
    calls: int  # it was taken from so many
    is_same: bool  # in each of them


@dataclass(frozen=True)
class Finding:
    """Something that keeps more with every call; or kept it, and is no leak: then ``why`` says so in words."""

    holder: Holder  # who keeps it
    line: Site | None  # the line that puts it there; None where the source does not show it
    made: tuple[Made, ...]  # the lines that made it, the greatest share first
    rate: Rate  # bytes a call
    graph_bytes: int  # of ``rate``, what a recorded graph keeps
    saved: tuple[tuple[str, int], ...]  # what operations saved, "Addmm (mat1) f32[64, 128]", and its bytes a call
    training: bool  # a backward pass follows some of the calls that its lines make
    scalar: bool  # the holder has tensors of one element in its hands
    direct: bool = False  # the tensors are themselves in the holder, not inside of what is in it
    inside: tuple[str, ...] = ()  # where they lie in each thing in the holder otherwise: ``.log_prob``, ``["loss"]``
    with_graph: tuple[str, ...] = ()  # of these, where what has a graph lies
    error: bool = False  # exceptions keep them, by their tracebacks
    history: bool = False  # they have a history, even if backward has freed what that had saved
    every: int = 1  # one call in so many leaves something behind
    nodes: int = 0  # nodes of graphs that stay with it, of each such call
    needed_later: bool = False  # a backward pass that came some calls later needed it
    goes_back: bool = False  # the graph leads on to those of earlier calls
    takes_in: bool = False  # it is one tensor that takes in more
    grown: Stretch | None = None  # the calls over which it grew
    why: str = ""
    at_end: int = 0  # bytes kept at the end

    @property
    def has_graph(self) -> bool:
        """Whether what stays has a graph behind it, or what backward has left of one."""
        return self.graph_bytes > 0 or self.history

    @property
    def host_bytes(self) -> int:
        """Bytes a call with those of nodes that hold nothing, each at ``NODE_BYTES``."""
        return self.rate.nbytes + (0 if self.graph_bytes else NODE_BYTES * self.nodes // self.every)


@dataclass(frozen=True)
class Part:
    """Training, or evaluation: its calls, a verdict ("steady", "bounded", "growing", "too few calls"), and, where it is
    growing, the bytes a call that all its findings keep together.
    """

    name: str
    calls: int
    verdict: str
    rate: Rate | None
    findings: tuple[Finding, ...] = ()
    quiet: tuple[Finding, ...] = ()  # what stays and does not grow
    trained: int = 0  # how many of its calls a backward pass followed


@dataclass(frozen=True, repr=False)
class GrowthReport(Shown):
    """What a watch found; see ``watch_growth``.

    Attributes:
        calls: how many calls began.
        modules: calls counted, of each class of module, or of ``LOOP``, ``"step"`` or ``BACKWARD_PASS``.
        training: calls that a backward pass followed.
        evaluation: calls that none followed.
        alive_bytes: bytes alive at the end that the watch knows of.
        allocated_bytes: what the CUDA allocator says beside it; None without CUDA.
        limit_bytes: the memory that can fill up; None where no limit is known.
        unwatched: what happened that the watch could not see, in words.
        totals: bytes of all known tensors as each call began, without its batch.
        grew: how these grew; None where they did not go on growing.
        process: how the process grew, where tensors do not explain it.
        rounds_at: where a round of a loop begins, where neither calls nor gradients tell.
    """

    calls: int
    modules: Mapping[str, int]
    training: Part
    evaluation: Part
    alive_bytes: int
    allocated_bytes: int | None
    limit_bytes: int | None
    unwatched: tuple[str, ...] = ()
    totals: tuple[int, ...] = field(default=(), repr=False)
    grew: Grew | None = None
    process: Grew | None = None
    rounds_at: Site | None = None

    @property
    def verdict(self) -> str:
        """ "growing" if training or evaluation grows; else "bounded", "steady" or "too few calls"."""
        verdicts = (self.training.verdict, self.evaluation.verdict)
        return next((one for one in ("growing", "bounded", "steady") if one in verdicts), "too few calls")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that grows, the most bytes a call first."""
        return tuple(sorted(self.training.findings + self.evaluation.findings, key=lambda found: -found.host_bytes))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {"verdict": self.verdict, **asdict(self)}

    def calls_until_full(self, part: Part) -> int | None:
        """How many more calls the memory has room for.

        Args:
            part: of those calls, ``report.training`` or ``report.evaluation``.

        Returns:
            A number of calls, at least 0; None where nothing grows or no limit is known.
        """
        if part.rate is None or self.limit_bytes is None:
            return None
        return max(0, self.limit_bytes - self.alive_bytes) // max(1, part.rate.nbytes)

    def plot(self) -> Drawing:
        """Draws the bytes kept as each call begins: in all, and for each of up to five holders what it was left since.

        Returns:
            The drawing, with the figure in words; see ``plot_lines``.

        Raises:
            ValueError: no call was seen.
        """
        lines = {"all tensors": list(self.totals)}
        for found in self.findings[:5]:
            values = found.grown.values if found.grown is not None else {}
            before = (values.get(call, 0) for call in range(self.calls))
            lines[found.holder.name or "not found"] = list(itertools.accumulate(before))
        return plot_lines(lines, x="call", y="bytes alive", title=f"Memory from call to call: {self.verdict}")

    def card(self) -> Block:
        """Both forms, as text and in a notebook."""
        return report_card(self)

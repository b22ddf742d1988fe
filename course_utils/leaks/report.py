"""Makes a report of what was counted (``Reporter``)."""

import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from course_utils.base.user_code import Site
from course_utils.holders.holder import NOBODY
from course_utils.leaks.births import YOUNG, Births
from course_utils.leaks.findings import Finding, Grew, GrowthReport, Made, Part, Quiet
from course_utils.leaks.found import Line, Ways, chains_of, findings_of, grown_of, known_by, told_once
from course_utils.leaks.kept import Kept, Stretch
from course_utils.leaks.lines import Ran
from course_utils.leaks.nodes import Nodes
from course_utils.leaks.process import Process, ProcessGrowth, rises
from course_utils.leaks.verdict import LEAST_CALLS, Growth, Places, Rate, judge

_LOG_BYTES = 16
_LOG = "a log of single numbers"


@dataclass
class Reporter:
    """Judges everything that was counted."""

    births: Births
    ways: Mapping[int, Ways]  # how samples of what each line left behind are kept, by the ``id`` of its ``Kept``
    nodes: Nodes
    process: Process
    ran: Ran
    warm_up: int  # so many calls from each place are not judged
    limit_bytes: int | None  # the memory that can fill up

    def report(self, modules: Mapping[str, int]) -> GrowthReport:
        """The report; ``modules`` says how often each class of module was called."""
        self._places = Places(self.births, self.warm_up)
        self._named: set[int] = set()  # by id: what is told of
        births, limit_bytes, allocated = self.births, self.limit_bytes, None
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            allocated = torch.cuda.memory_allocated()
            if limit_bytes is None:
                limit_bytes = torch.cuda.mem_get_info()[1]
        parts = [self._part(name) for name in ("training", "evaluation")]
        named = {known_by(found.holder) for part in parts for found in part.findings}
        parts = [
            replace(part, quiet=tuple(one for one in part.quiet if known_by(one.holder) not in named)) for part in parts
        ]
        grew = self._grew()
        if grew is not None and not grew.all_named:
            parts = [replace(part, verdict="bounded") if part.verdict == "steady" else part for part in parts]
        return GrowthReport(
            births.call, dict(modules), parts[0], parts[1], births.alive_bytes, allocated, limit_bytes,
            tuple(self.process.unwatched()), totals=tuple(births.totals[1:]), grew=grew,
            process=self._process_grew([found for part in parts for found in part.findings]),
        )  # fmt: skip

    def _part(self, name: str) -> Part:
        training = name == "training"
        mine = {place for place in self._places.calls if (place in self._places.trained) == training}
        seen = sum(self._places.seen[place] for place in mine)
        if sum(len(self._places.calls[place]) for place in mine) < LEAST_CALLS:
            return Part(name, seen, "too few calls", None)
        growing, quiet = self._judged(mine)
        found = [one for one in findings_of(growing, training, self.births, self.ran) if one.rate.nbytes or one.nodes]
        findings = told_once(found, list(chains_of(self.nodes, self.births, self.ran, mine)))
        if not findings:
            real = [one for one in quiet if one.why != _LOG]
            return Part(name, seen, "bounded" if real else "steady", None, (), tuple(quiet))
        rates = [one.rate for one in findings]
        nbytes, calls = sum(rate.nbytes for rate in rates), min(rate.calls for rate in rates)
        total = Rate(nbytes, calls, all(rate.is_same for rate in rates))
        findings.sort(key=lambda one: -one.host_bytes)
        return Part(name, seen, "growing", total, tuple(findings), tuple(quiet))

    def _judged(self, mine: Collection[int]) -> tuple[list[Line], list[Quiet]]:
        """What grows of the calls from some places, and what stays and does not."""
        growing: list[Line] = []
        small: list[tuple[Line, str]] = []
        quiet: list[Quiet] = []
        for kept in [kept for kept in self.births.kept.values() if kept.place in mine]:
            ways = self.ways.get(id(kept), ())
            line = Line(kept, self._growth(kept, ways), ways)
            limit = next((way.holder for _, way in ways if way.holder.limit is not None), None)
            if limit is not None and line.growth.verdict != "steady":
                quiet.append(
                    self._quiet(Line(kept, Growth("bounded"), ways), f"{limit.name} holds {limit.limit} at most")
                )
                continue
            why = line.growth.why if line.growth.verdict == "bounded" else _LOG if _is_log(ways) else ""
            gone = line.growth.stretch is not None and not line.growth.stretch.goes_on
            if line.growth.verdict == "steady" or (
                gone and not ways
            ):  # too little for anybody to have looked who has it
                continue
            if not why:
                growing.append(line)
            elif why == _LOG or gone:
                small.append((line, why))
            else:
                quiet.append(self._quiet(line, why))
        grown = {way.holder.key for line in growing for _, way in line.ways}
        for line, why in small:  # in one container with what grows it is a part of that
            if line.ways[0][1].holder.key in grown:
                growing.append(line)
            else:
                quiet.append(self._quiet(line, why))
        self._named |= {id(line.kept) for line in growing}
        return growing, quiet

    def _quiet(self, line: Line, why: str) -> Quiet:
        self._named.add(id(line.kept))
        holder = line.ways[0][1].holder if line.ways else NOBODY
        grown = None if line.growth.stretch is None else grown_of([(line, 1.0)])
        keeps = self.ran.keeping_line(holder) if grown else None
        return Quiet(holder, line.kept.site, why, sum(line.kept.alive.values()), grown, keeps)

    def _growth(self, kept: Kept, ways: Ways) -> Growth:
        """What piles up in cycles is judged by itself, until Python's collector happens to run.

        Whether there is much or nothing at the end is chance, so what there was when it was looked at counts, of the
        calls that the collector had taken nothing from: it takes a part of one at times.
        """
        values = kept.looked_at
        if not ways or any(way.holder.kind != "cycle" for _, way in ways) or len(values) < LEAST_CALLS:
            return judge(kept, self.births, self._places.calls[kept.place], [way for _, way in ways])
        if len(kept.ended) > 1 and not all(way.holder.name.startswith("ctx.") for _, way in ways):
            return Growth("bounded", why="it lies in cycles, which Python's garbage collector frees now and then")
        whole = statistics.median(values.values())
        counted = {call: values[call] for call in sorted(values) if values[call] >= whole}
        return Growth("growing", Stretch(counted, sum(values.values())), counted, len(kept.ended))

    def _grew(self) -> Grew | None:
        """How the bytes alive grew, and what of that is told of; None where they did not grow to the end."""
        births, first = self.births, self.warm_up + 1
        totals = [*births.totals[first:], births.lasting_bytes]
        if len(totals) < 2 * LEAST_CALLS or not rises(totals):
            return None
        told = [kept for kept in births.kept.values() if id(kept) in self._named]
        named = sum(kept.total - kept.total_at(first + YOUNG - 1) for kept in told)
        known = {id(birth) for kept in told for birth in kept.births.values()}
        theirs, sites = {kept.site for kept in told}, Counter[Site]()
        for birth in list(births.live.values()):
            if birth.call > births.call - YOUNG and birth.site in theirs:
                named += birth.nbytes * (id(birth) not in known)  # too young to be counted
            elif birth.call >= first and id(birth) not in known:
                sites[birth.site] += birth.nbytes
        rest = tuple(Made(site, nbytes) for site, nbytes in sites.most_common(3))
        return Grew(totals[-1] - totals[0], first, births.call, named, rest)

    def _process_grew(self, findings: Sequence[Finding]) -> ProcessGrowth | None:
        """How the process grew, where neither tensors nor nodes explain it."""
        grew = self.process.growth()
        if grew is None:
            return None
        nodes = sum(found.host_bytes - found.rate.nbytes for found in findings)
        explained = grew.tensors + nodes * grew.calls
        return None if 2 * explained > grew.nbytes else replace(grew, tensors=explained)


def _is_log(ways: Ways) -> bool:
    return bool(ways) and all(nbytes <= _LOG_BYTES and not way.history and not way.graph for nbytes, way in ways)

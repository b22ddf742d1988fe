"""Makes a report of what was counted (``Reporter``): what lines leave behind is judged, and told holder by holder."""

import itertools
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from course_utils.base.user_code import Site, is_user_file
from course_utils.holders.holder import CACHE_OF, NOBODY, Holder
from course_utils.leaks.births import Births
from course_utils.leaks.calls import Place
from course_utils.leaks.findings import Finding, Grew, GrowthReport, Made, Part, Rate
from course_utils.leaks.kept import LEAST_CALLS, YOUNG, Kept, Stretch, Way
from course_utils.leaks.nodes import NODE_BYTES, Nodes
from course_utils.leaks.verdict import LOG, Growth, delay, judge
from course_utils.source.keeping import as_written, keeping_line

_LEAST_BYTES = 8 * 2**20
"""Less of a process's memory is noise: allocators keep what they may need again."""


@dataclass
class Reporter:
    """Judges everything that was counted."""

    births: Births
    nodes: Nodes
    resident: Sequence[tuple[int, int]]  # calls, and what the process held as each began; known on Linux alone
    ran: set[tuple[str, int]]  # files and numbers of lines that did
    warm_up: int  # so many calls from each place are not judged
    limit_bytes: int | None  # the memory that can fill up
    _told: set[Kept] = field(default_factory=set)  # what is told of

    def report(self, modules: Mapping[str, int], unwatched: tuple[str, ...]) -> GrowthReport:
        """The report, given how often each class of module was called, and what the watch could not see."""
        births, limit_bytes, allocated = self.births, self.limit_bytes, None
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            allocated = torch.cuda.memory_allocated()
            limit_bytes = limit_bytes or torch.cuda.mem_get_info()[1]
        of_place: dict[Place | None, list[int]] = defaultdict(list)
        for call, place in enumerate(births.place_of[1:], 1):
            of_place[place].append(call)
        of_part: dict[bool, dict[Place | None, list[int]]] = {True: {}, False: {}}
        for place, calls in of_place.items():
            of_part[2 * sum(births.trained[call] > 0 for call in calls) >= len(calls)][place] = calls
        parts = [self._part("training", of_part[True]), self._part("evaluation", of_part[False])]
        findings, grew = [found for part in parts for found in part.findings], self._grew()
        named, missed = {known_by(found.holder) for found in findings}, grew is not None and not grew.all_named
        for at, part in enumerate(parts):
            quiet = tuple(one for one in part.quiet if known_by(one.holder) not in named)
            verdict = "bounded" if missed and part.verdict == "steady" else part.verdict
            parts[at] = replace(part, quiet=quiet, verdict=verdict)
        return GrowthReport(
            births.call, dict(modules), parts[0], parts[1], births.alive_bytes, allocated, limit_bytes,
            unwatched, totals=tuple(births.totals[1:]), grew=grew,
            process=self._process_grew(sum(NODE_BYTES * found.nodes // found.every for found in findings)),
        )  # fmt: skip

    def _part(self, name: str, of_place: Mapping[Place | None, Sequence[int]]) -> Part:
        births, seen = self.births, [call for calls in of_place.values() for call in calls]
        part = Part(name, len(seen), "too few calls", None, trained=sum(births.trained[call] > 0 for call in seen))
        old = births.call - YOUNG  # those that are old enough are judged, without the first few
        judged = {place: [call for call in calls if call <= old][self.warm_up :] for place, calls in of_place.items()}
        if sum(map(len, judged.values())) < LEAST_CALLS:
            return part
        kept = [one for one in births.kept.values() if one.place in judged]
        lines = [line for one in kept for line in self._lines(one, judged[one.place])]
        self._told |= {line.kept for line in lines}
        growing = {line.holder.key for line in lines if not line.why}
        told, others = defaultdict(list), defaultdict(list)
        for line in lines:
            # In one container with what grows, it is a part of that.
            if (line.why in ("", LOG) or not line.stretch.goes_on) and line.holder.key in growing:
                told[line.holder.key].append(line)
            else:
                others[line.holder.name or str(line.kept.site), line.why].append(line)
        quiet, found = tuple(map(self._finding, others.values())), map(self._finding, told.values())
        findings = _told_once([one for one in found if one.rate.nbytes or one.nodes], list(self._chains(of_place)))
        if not findings:
            return replace(part, verdict="bounded" if any(one.why != LOG for one in quiet) else "steady", quiet=quiet)
        nbytes, calls = sum(one.rate.nbytes for one in findings), min(one.rate.calls for one in findings)
        rate = Rate(nbytes, calls, all(one.rate.is_same for one in findings))
        findings = sorted(findings, key=lambda one: -one.host_bytes)
        return replace(part, verdict="growing", rate=rate, findings=tuple(findings), quiet=quiet)

    def _lines(self, kept: Kept, calls: Sequence[int]) -> Iterator[Growth]:
        """What one line leaves behind, where that is more than nothing, holder by holder."""
        growth = judge(kept, self.births, calls)
        # Of what was given back before anybody had looked who has it, there is too little.
        if growth is None or not (growth.stretch.goes_on or kept.ways):
            return
        by_holder: dict[tuple[str, ...], list[tuple[int, Way]]] = defaultdict(list)
        # Of two containers the larger one grows; the other has what it needs of it now: ``last = memory[-15:]``.
        most = max((way.holder.count for _, way in kept.ways), default=0)
        known = [(nbytes, way) for nbytes, way in kept.ways if not 0 < 2 * way.holder.count < most]
        for nbytes, way in known or [(1, Way(NOBODY, False))]:
            by_holder[way.holder.key].append((nbytes, way))
        total = sum(nbytes for nbytes, _ in known)
        for ways in by_holder.values():
            share = sum(nbytes for nbytes, _ in ways) / total if total else 1.0
            yield replace(growth, holder=ways[0][1].holder, ways=ways, share=share)

    def _finding(self, lines: Sequence[Growth]) -> Finding:
        """What one holder keeps of what some lines leave behind."""
        values, made, weighed = Counter[int](), Counter[Site](), list[tuple[Way, float]]()
        for line in lines:
            rate = line.share * sum(line.values.values()) / max(1, len(line.values))
            made[line.kept.site] += round(rate)
            values.update({call: round(nbytes * line.share) for call, nbytes in line.values.items()})
            size = max(1, sum(nbytes for nbytes, _ in line.ways))
            weighed += [(way, rate * nbytes / size) for nbytes, way in line.ways]
        ways = [way for way, _ in weighed]
        graph_bytes = round(sum(nbytes for way, nbytes in weighed if way.graph))
        saved = _sums(weighed, lambda way: way.saved and f"{way.saved} {way.tensor}")
        inside = _sums(weighed, lambda way: "" if way.holder.name.startswith(CACHE_OF) else way.inside)
        with_graph = _sums(weighed, lambda way: way.inside if way.graph or way.history else "")
        holder = max((way.holder for way in ways), key=lambda one: one.count)
        line_of_user = keeping_line(holder, self.ran, {site.file for site in made})
        if line_of_user is not None and not is_user_file(line_of_user.file):  # a library's function keeps it
            line_of_user = max(made, key=lambda site: made[site])
        takes_in = any(line.kept.takes_in for line in lines) and holder.kind == "variable"
        bound = re.match(r"([\w.]+)\s*=", line_of_user.source) if takes_in and line_of_user is not None else None
        nodes = max(way.nodes for way in ways)
        grown = _grown(lines, 0 if graph_bytes else NODE_BYTES * nodes)
        trained = {place for place, came in zip(self.births.place_of, self.births.trained, strict=True) if came}
        return Finding(
            holder=replace(holder, name=bound[1] if bound else as_written(holder, line_of_user)),
            line=line_of_user,
            made=tuple(Made(site, nbytes) for site, nbytes in made.most_common()),
            rate=Rate(round(sum(values.values()) / max(1, len(values))), len(values), len(set(values.values())) == 1),
            graph_bytes=graph_bytes,
            saved=tuple(saved.most_common()),
            training=any(line.kept.place in trained for line in lines),
            scalar=all(way.scalar for way in ways),
            direct=all(way.direct for way in ways),
            inside=tuple(text for text, _ in inside.most_common(3)),
            with_graph=tuple(text for text, _ in with_graph.most_common(3)),
            error=any(way.error for way in ways),
            history=any(way.history for way in ways),
            goes_back=any(way.goes_back for way in ways),
            every=round(len(values) / max(1, sum(nbytes > 0 for nbytes in values.values()))) or 1,
            nodes=nodes,
            needed_later=any(way.used for way in ways) and grown is not None and delay(grown, self.births) > 0,
            takes_in=takes_in,
            grown=grown,
            why=lines[0].why,
            at_end=round(sum(line.share * line.kept.total for line in lines)),
        )

    def _chains(self, places: Container[Place | None]) -> Iterator[Finding]:
        """The variables whose graph leads to many calls, without those that lead to another such variable."""
        chains = self.nodes.chains
        for key, chain in chains.items():
            place_of = Counter(self.births.place_of[call] for call in chain.stretch.values)
            mine = place_of.most_common(1)[0][0] in places
            if not mine or any(key not in chains[other].leads_to for other in chain.leads_to & chains.keys()):
                continue
            holder, link = chain.link.holder, chain.link
            line = keeping_line(holder, self.ran)
            yield Finding(
                holder=replace(holder, name=as_written(holder, line)), line=line, made=(),
                rate=Rate(0, len(chain.stretch.values), True), graph_bytes=0, saved=(), training=True,
                scalar=link.scalar, direct=link.direct, history=True, nodes=chain.rate, grown=chain.stretch,
            )  # fmt: skip

    def _grew(self) -> Grew | None:
        """How the bytes alive grew, and what of that is told of; None where they did not grow to the end."""
        births, first = self.births, self.warm_up + 1
        totals = [*births.totals[first:], births.lasting_bytes]
        if len(totals) < 2 * LEAST_CALLS or not _rises(totals):
            return None
        named = sum(kept.total - kept.total_at(first + YOUNG - 1) for kept in self._told)
        sites: Counter[Site] = Counter()
        for birth in list(births.recorder.live.values()):
            if birth.call >= first and birth.kept not in self._told:
                sites[birth.site] += birth.nbytes
        rest = tuple(Made(site, nbytes) for site, nbytes in sites.most_common(3))
        return Grew(totals[-1] - totals[0], first, births.call, named, rest)

    def _process_grew(self, of_nodes: int) -> Grew | None:
        """How the process grew, if to the end, and tensors and nodes, so many bytes a call, do not explain it."""
        points = self.resident[len(self.resident) // 4 :]
        if len(points) < 2 * LEAST_CALLS:
            return None
        (first, level), (last, _) = points[0], points[-1]
        levels, known = [nbytes - level for _, nbytes in points], [self.births.totals[call] for call, _ in points]
        # What tensors held for a time and gave back, the allocator may keep.
        explained = max(known) - known[0] + of_nodes * (last - first)
        grows = levels[-1] >= max(_LEAST_BYTES, 2 * explained + 1) and _rises(levels)
        return Grew(levels[-1], first, last, explained) if grows else None


def _rises(levels: Sequence[int]) -> bool:
    """Whether something went on growing: in each quarter it was higher than in the one before."""
    bounds = [at * len(levels) // 4 for at in range(5)]
    quarters = [statistics.median(levels[begin:end]) for begin, end in itertools.pairwise(bounds)]
    steps = [after - before for before, after in itertools.pairwise(quarters)]
    return min(steps) > 0.15 * max(steps) and levels[-1] > levels[0]


def _grown(lines: Sequence[Growth], of_nodes: int) -> Stretch | None:
    """The calls over which what some lines left behind grew, and so many bytes of nodes in each."""
    stretches = [(line.stretch, line.share) for line in lines if line.stretch.values]
    if not stretches:
        return None
    values, peak = Counter[int](), of_nodes * max(len(stretch.values) for stretch, _ in stretches)
    for stretch, share in stretches:
        values.update({call: round(nbytes * share) for call, nbytes in stretch.values.items()})
        peak += round(stretch.peak * share)
    every = [stretch for stretch, _ in stretches]
    goes_on, times = any(one.goes_on for one in every), max(one.times for one in every)
    largest = max(every, key=lambda one: one.peak)
    return replace(largest, values=dict(sorted(values.items())), peak=peak, goes_on=goes_on, times=times)


def _sums(weighed: Iterable[tuple[Way, float]], text: Callable[[Way], str]) -> Counter[str]:
    """Bytes a call by what is said of ways."""
    sums: dict[str, float] = defaultdict(float)
    for way, nbytes in weighed:
        if said := text(way):
            sums[said] += nbytes  # a share of each sample: rounded one by one, a third of 4 would be 1
    return Counter({said: round(nbytes) for said, nbytes in sums.items()})


def _told_once(findings: Sequence[Finding], chains: Sequence[Finding]) -> list[Finding]:
    """Findings on bytes and on chains, each variable once. Numbers that were computed from a chain, such as a running
    mean that is logged, have its graph behind them, and are a number each once it is cut.
    """
    named = {known_by(found.holder) for found in findings}
    chains = [chain for chain in chains if known_by(chain.holder) not in named]
    if not chains:
        return list(findings)
    others = [found for found in findings if not found.goes_back or not found.scalar or found.graph_bytes]
    return [*(replace(found, nodes=0) if found.goes_back else found for found in others), *chains]


def known_by(holder: Holder) -> tuple[tuple[str, str], str]:
    """What tells a container by whichever name: ``model.history`` and ``self.history``."""
    return holder.tail, holder.file

"""Findings, made of what lines left behind, one for each holder (``findings_of``, ``chains_of``)."""

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from course_utils.holders.holder import CACHE_OF, NOBODY, Holder
from course_utils.leaks.births import Births
from course_utils.leaks.findings import Finding, Grown, Made
from course_utils.leaks.kept import Kept
from course_utils.leaks.lines import Ran
from course_utils.leaks.nodes import NODE_BYTES, Nodes, Way
from course_utils.leaks.verdict import Growth, Rate, delay
from course_utils.source.keeping import as_written

Ways = Sequence[tuple[int, Way]]


@dataclass
class Line:
    """What one line leaves behind in calls from one place, what was made of it, and how samples of it are kept."""

    kept: Kept
    growth: Growth
    ways: Ways


def findings_of(growing: Sequence[Line], training: bool, births: Births, ran: Ran) -> Iterator[Finding]:
    by_holder: dict[tuple[str, ...], list[tuple[Line, float]]] = {}
    for line in growing:
        known = line.ways or [(1, Way(NOBODY, False))]
        total = sum(nbytes for nbytes, _ in known)
        split: dict[tuple[str, ...], list[tuple[int, Way]]] = {}
        for nbytes, way in known:
            split.setdefault(way.holder.key, []).append((nbytes, way))
        for key, part in split.items():
            share = sum(nbytes for nbytes, _ in part) / max(1, total)
            by_holder.setdefault(key, []).append((Line(line.kept, line.growth, part), share))
    for parts in by_holder.values():
        yield _finding(parts, training, births, ran)


def grown_of(parts: Sequence[tuple[Line, float]]) -> Grown:
    stretches = [(line.growth.stretch, share) for line, share in parts if line.growth.stretch is not None]
    calls = [call for stretch, _ in stretches for call in stretch.values]
    longest, _ = max(stretches, key=lambda one: one[0].peak)
    return Grown(
        first=max(1, min(calls)),
        last=max(calls),
        peak=round(sum(stretch.peak * share for stretch, share in stretches)),
        goes_on=any(stretch.goes_on for stretch, _ in stretches),
        times=max(line.growth.times for line, _ in parts),
        given_back_at=longest.given_back_at,
    )


def _finding(parts: Sequence[tuple[Line, float]], training: bool, births: Births, ran: Ran) -> Finding:
    values: Counter[int] = Counter()
    made: Counter[tuple[str, int]] = Counter()
    saved: Counter[str] = Counter()
    series: Counter[int] = Counter()
    inside: Counter[str] = Counter()
    graph_bytes = 0.0
    for line, share in parts:
        of_calls = line.growth.values
        rate = share * sum(of_calls.values()) / max(1, len(of_calls))
        for call, nbytes in of_calls.items():
            values[call] += round(nbytes * share)
        made[line.kept.site.file, line.kept.site.line] += round(rate)
        for call, total in line.kept.history:
            series[call] += round(total * share)
        size = max(1, sum(nbytes for nbytes, _ in line.ways))
        for nbytes, way in line.ways:
            if way.graph:
                graph_bytes += rate * nbytes / size
            if way.saved:
                saved[f"{way.saved} {way.tensor}"] += round(rate * nbytes / size)
            if way.inside and not way.holder.name.startswith(CACHE_OF):
                inside[way.inside] += round(rate * nbytes / size)
    ways = [way for line, _ in parts for _, way in line.ways]
    graphs = Counter(way.inside for way in ways if way.inside and (way.graph or way.history))
    holder = max((way.holder for way in ways), key=lambda one: one.count)
    line_of_user = ran.keeping_line(holder, {file for file, _ in made})
    takes_in = any(line.kept.takes_in for line, _ in parts) and holder.kind == "variable"
    bound = re.match(r"([\w.]+)\s*=", line_of_user.source) if takes_in and line_of_user is not None else None
    stretches = [line.growth.stretch for line, _ in parts if line.growth.stretch]
    nodes = max((way.nodes for way in ways), default=0)
    grown = grown_of(parts)
    if not graph_bytes:
        of_nodes = NODE_BYTES * nodes * max(len(stretch.values) for stretch in stretches)
        grown = replace(grown, peak=grown.peak + of_nodes)
    sites = {(line.kept.site.file, line.kept.site.line): line.kept.site for line, _ in parts}
    return Finding(
        holder=replace(holder, name=bound[1] if bound else as_written(holder, line_of_user)),
        line=line_of_user,
        made=tuple(Made(sites[at], nbytes) for at, nbytes in made.most_common()),
        rate=Rate(round(statistics.fmean(values.values())), len(values), len(set(values.values())) == 1),
        graph_bytes=round(graph_bytes),
        saved=tuple(saved.most_common()),
        training=training,
        scalar=all(way.scalar for way in ways),
        direct=all(way.direct for way in ways),
        inside=_together(inside),
        with_graph=_together(graphs),
        error=any(way.error for way in ways),
        history=any(way.history for way in ways),
        goes_back=any(way.goes_back for way in ways),
        series=tuple(sorted(series.items())),
        every=round(len(values) / max(1, sum(nbytes > 0 for nbytes in values.values()))) or 1,
        nodes=nodes,
        needed_later=any(way.used for way in ways) and any(delay(stretch, births) for stretch in stretches),
        takes_in=takes_in,
        grown=grown,
    )


def _together(inside: Counter[str]) -> tuple[str, ...]:
    """Where things lie in each entry, the largest first; ``[...]`` where that is at a number of many."""
    many = Counter(re.sub(r"\[\d+\]", "[...]", text) for text in inside)
    named = [
        text if many[general := re.sub(r"\[\d+\]", "[...]", text)] <= 2 else general for text, _ in inside.most_common()
    ]
    return tuple(dict.fromkeys(named))[:3]


def chains_of(nodes: Nodes, births: Births, ran: Ran, places: set[int]) -> Iterator[Finding]:
    """The variables whose graph leads to many calls, without those that lead to another such variable."""
    for chain in nodes.chains.values():
        holder, calls = chain.link.holder, sorted(chain.counts)
        mine = Counter(births.place_of[call] for call in calls).most_common(1)[0][0] in places
        if not mine or chain.leads_to & nodes.chains.keys():
            continue
        line = ran.keeping_line(holder)
        peak = NODE_BYTES * sum(chain.counts.values())
        yield Finding(
            holder=replace(holder, name=as_written(holder, line)), line=line, made=(),
            rate=Rate(0, len(calls), True), graph_bytes=0, saved=(), training=True,
            scalar=chain.link.scalar, direct=chain.link.direct, history=True, nodes=chain.rate,
            grown=Grown(calls[0], calls[-1], peak, not chain.until, chain.times, chain.given_back_at),
        )  # fmt: skip


def told_once(findings: Sequence[Finding], chains: Sequence[Finding]) -> list[Finding]:
    """Findings on bytes and on chains, without what is told of already.

    A variable that a finding on bytes names is no chain besides. Numbers that were computed from a chain, such as a
    running mean that is logged, have its graph behind them, and are a number each once it is cut.
    """
    named = {known_by(found.holder) for found in findings}
    chains = [chain for chain in chains if known_by(chain.holder) not in named]
    if not chains:
        return list(findings)
    parts = [found for found in findings if found.goes_back and found.scalar and not found.graph_bytes]
    also = tuple(dict.fromkeys((part.holder.name, part.line) for part in parts if part.line is not None))
    first = max(chains, key=lambda chain: chain.nodes)
    others = [replace(found, nodes=0) if found.goes_back else found for found in findings if found not in parts]
    return [*others, *(replace(chain, also=also) if chain is first else chain for chain in chains)]


def known_by(holder: Holder) -> tuple[tuple[str, str], str]:
    """What tells a container by whichever name: ``model.history`` and ``self.history``."""
    return holder.tail, holder.file

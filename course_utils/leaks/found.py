"""Findings, made of what lines left behind, one for each holder (``findings_of``, ``with_joined``, ``chains_of``)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from course_utils.base.user_code import Site
from course_utils.holders.holder import CACHE_OF, NOBODY, Holder, Link
from course_utils.leaks.births import Births
from course_utils.leaks.findings import Finding, Grown, Made, Quiet
from course_utils.leaks.joined import Joined
from course_utils.leaks.kept import Kept
from course_utils.leaks.nodes import NODE_BYTES, Nodes
from course_utils.leaks.verdict import Growth, Rate, delay, rate_of
from course_utils.source.keeping import as_written, keeping_line

_CONSIDERABLE = 0.1
"""A stretch whose peak is such a share of what the program holds is told of, also where it was given back."""

Links = Sequence[tuple[int, Link]]


@dataclass
class Line:
    """What one line leaves behind in calls from one place, and what was made of it."""

    kept: Kept
    growth: Growth
    links: Links


def findings_of(growing: Sequence[Line], training: bool, births: Births) -> Iterator[Finding]:
    by_holder: dict[tuple[str, ...], list[tuple[Line, float]]] = {}
    for line in growing:
        known = line.links or [(1, Link(NOBODY, False))]
        total = sum(nbytes for nbytes, _ in known)
        split: dict[tuple[str, ...], list[tuple[int, Link]]] = {}
        for nbytes, link in known:
            split.setdefault(link.holder.key, []).append((nbytes, link))
        for key, part in split.items():
            share = sum(nbytes for nbytes, _ in part) / max(1, total)
            by_holder.setdefault(key, []).append((Line(line.kept, line.growth, part), share))
    for parts in by_holder.values():
        yield _finding(parts, training, births)


def _any_number(inside: str) -> str:
    return re.sub(r"\[\d+\]", "[...]", inside)


def grown_of(lines: Sequence[Line]) -> Grown:
    stretches = [line.growth.stretch for line in lines if line.growth.stretch is not None]
    calls = [call for stretch in stretches for call in stretch.values]
    longest = max(stretches, key=lambda stretch: stretch.peak)
    return Grown(
        first=min(calls),
        last=max(calls),
        peak=sum(stretch.peak for stretch in stretches),
        goes_on=any(stretch.goes_on for stretch in stretches),
        times=max(line.growth.times for line in lines),
        given_back_at=longest.given_back_at,
    )


def _finding(parts: Sequence[tuple[Line, float]], training: bool, births: Births) -> Finding:
    values: Counter[int] = Counter()
    made: Counter[Site] = Counter()
    saved: Counter[str] = Counter()
    series: Counter[int] = Counter()
    graph_bytes = 0.0
    for line, share in parts:
        of_calls = line.growth.values
        rate = share * sum(of_calls.values()) / max(1, len(of_calls))
        for call, nbytes in of_calls.items():
            values[call] += round(nbytes * share)
        made[line.kept.site] += round(rate)
        for call, total in line.kept.history:
            series[call] += round(total * share)
        size = max(1, sum(nbytes for nbytes, _ in line.links))
        for nbytes, link in line.links:
            if link.graph:
                graph_bytes += rate * nbytes / size
            if link.saved:
                saved[f"{link.saved} {link.tensor}"] += round(rate * nbytes / size)
    every_link = [link for line, _ in parts for _, link in line.links]
    insides = Counter(
        _any_number(link.inside) for link in every_link if link.inside and not link.holder.name.startswith(CACHE_OF)
    )
    holder = max((link.holder for link in every_link), key=lambda one: one.count)
    line_of_user = keeping_line(holder, {site.file for site in made})
    stretches = [line.growth.stretch for line, _ in parts if line.growth.stretch]
    nodes = max((link.nodes for link in every_link), default=0)
    grown = grown_of([line for line, _ in parts])
    if not graph_bytes:
        of_nodes = NODE_BYTES * nodes * max(len(stretch.values) for stretch in stretches)
        grown = replace(grown, peak=grown.peak + of_nodes)
    return Finding(
        holder=replace(holder, name=as_written(holder, line_of_user)),
        line=line_of_user,
        made=tuple(Made(site, nbytes) for site, nbytes in made.most_common()),
        rate=rate_of([values[call] for call in sorted(values)]),
        graph_bytes=round(graph_bytes),
        saved=tuple(saved.most_common()),
        training=training,
        scalar=all(link.scalar for link in every_link),
        direct=all(link.direct for link in every_link),
        inside=tuple(sorted(text for text, _ in insides.most_common(3))),
        error=any(link.error for link in every_link),
        history=any(link.history for link in every_link),
        series=tuple(sorted(series.items())),
        nodes=nodes,
        needed_later=any(delay(stretch, births) for stretch in stretches),
        grown=grown,
    )


def with_joined(
    findings: list[Finding], quiet: list[Quiet], joined: Joined, training: bool, alive: int
) -> list[Finding]:
    """Adds what is joined to itself. What such a line joins and the graph that this keeps are one finding."""
    now = joined.stretch()
    stretches = [*joined.ended, *([now] if now is not None else [])]
    if not stretches:
        return findings
    stretch = now if now is not None and now.goes_on else max(stretches, key=lambda one: one.peak)
    grown = Grown(min(stretch.values), max(stretch.values), stretch.peak, stretch.goes_on, len(joined.ended))
    same = [at for at, one in enumerate(findings) if (one.line, one.holder.name) == (joined.site, joined.holder.name)]
    if not stretch.goes_on and not same:
        if stretch.peak >= _CONSIDERABLE * (alive + stretch.peak):
            why = "it is given back when its loop ends"
            quiet.append(Quiet(joined.holder, (joined.site,), why, 0, grown, joined.site))
        return findings
    rate = rate_of(list(stretch.values.values()))
    made = (Made(joined.site, rate.nbytes),)
    if same:
        one = findings[same[0]]
        total = Rate(one.rate.nbytes + rate.nbytes, one.rate.low + rate.low, one.rate.high + rate.high, one.rate.calls)
        findings[same[0]] = replace(one, made=one.made + made, rate=total, joined=True)
        return findings
    series = tuple((call, nbytes) for call, nbytes in stretch.values.items())
    return [
        *findings,
        Finding(
            joined.holder,
            joined.site,
            made,
            rate,
            0,
            (),
            training,
            scalar=False,
            series=series,
            joined=True,
            grown=grown,
        ),
    ]


def chains_of(nodes: Nodes, said: Sequence[Finding], births: Births, places: set[int]) -> Iterator[Finding]:
    """The variables whose graph leads to many calls, and that no finding on bytes names."""
    named = {known_by(found.holder) for found in said}
    for chain in nodes.chains.values():
        holder = chain.link.holder
        mine = Counter(births.place_of[call] for call in chain.counts).most_common(1)[0][0] in places
        if not mine or known_by(holder) in named or chain.leads_to & nodes.chains.keys():
            continue
        line = keeping_line(holder)
        calls = sorted(chain.counts)
        yield Finding(
            holder=replace(holder, name=as_written(holder, line)), line=line, made=(),
            rate=Rate(0, 0, 0, len(calls)), graph_bytes=0, saved=(), training=True,
            scalar=chain.link.scalar, direct=chain.link.direct, history=True, nodes=chain.rate,
            grown=Grown(calls[0], calls[-1], NODE_BYTES * sum(chain.counts.values()), chain.goes_on, 0),
        )  # fmt: skip


def known_by(holder: Holder) -> tuple[tuple[str, str], str]:
    """What tells a container by whichever name: ``model.history`` and ``self.history``."""
    return holder.tail, holder.file

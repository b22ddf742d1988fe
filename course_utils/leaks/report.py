"""Makes a report of what was counted (``build_report``)."""

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from course_utils.base.user_code import Site
from course_utils.holders.holder import CACHE_OF, NOBODY, Holder, Link
from course_utils.holders.lines import as_written, keeping_line
from course_utils.leaks.births import Births
from course_utils.leaks.findings import Finding, Grown, GrowthReport, Made, Part, Quiet
from course_utils.leaks.joined import Joined
from course_utils.leaks.kept import Kept, Stretch
from course_utils.leaks.nodes import NODE_BYTES, Nodes
from course_utils.leaks.process import Process
from course_utils.leaks.verdict import LEAST_CALLS, Growth, Places, Rate, delay, judge, rate_of

_LOG_BYTES = 16
_LOG = "a log of single numbers"
_CONSIDERABLE = 0.1
"""A stretch whose peak is such a share of what the program holds is told of, also where it was given back."""

Links = Sequence[tuple[int, Link]]


@dataclass
class _Line:
    """What one line leaves behind in calls from one place, and what was made of it."""

    kept: Kept
    growth: Growth
    links: Links


def build_report(
    births: Births,
    links: Mapping[int, Links],
    nodes: Nodes,
    process: Process,
    modules: Mapping[str, int],
    warm_up: int,
    limit_bytes: int | None,
) -> GrowthReport:
    """Judges everything that was counted.

    Args:
        births: what was counted.
        links: how samples of what each line left behind are kept, with their bytes, by the ``id`` of its ``Kept``.
        nodes: the graphs that lead from call to call.
        process: what the process itself holds.
        modules: how often each class of module was called.
        warm_up: calls from each place that are not judged.
        limit_bytes: the memory that can fill up.
    """
    allocated = None
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        allocated = torch.cuda.memory_allocated()
        if limit_bytes is None:
            limit_bytes = torch.cuda.mem_get_info()[1]
    places = Places(births, warm_up)
    parts = [_part(name, places, births, links, nodes) for name in ("training", "evaluation")]
    unwatched = ["Compiled code ran. What it allocates inside is not watched."] if births.compiled else []
    return GrowthReport(
        births.call, dict(modules), parts[0], parts[1], births.alive_bytes(), allocated, limit_bytes,
        (*unwatched, *process.unwatched()), births.every, totals=_totals(births), process=process.growth(),
    )  # fmt: skip


def _totals(births: Births) -> tuple[tuple[int, int], ...]:
    """(call, bytes kept) where they changed, in one pass over all histories."""
    changes: Counter[int] = Counter()
    for kept in births.kept.values():
        before = 0
        for call, total in kept.history:
            changes[call] += total - before
            before = total
    totals, total = [], 0
    for call in sorted({*changes, births.call}):
        total += changes[call]
        totals.append((call, total))
    return tuple(totals)


def _part(name: str, places: Places, births: Births, links: Mapping[int, Links], nodes: Nodes) -> Part:
    training = name == "training"
    mine = set(places.of(training))
    seen = sum(places.seen[place] for place in mine)
    if sum(len(places.calls[place]) for place in mine) < LEAST_CALLS:
        return Part(name, seen, "too few calls", None)
    growing: list[_Line] = []
    numbers: list[_Line] = []
    quiet: list[Quiet] = []
    for kept in list(births.kept.values()):
        if kept.place not in mine:
            continue
        known = links.get(id(kept), ())
        links_alone = [link for _, link in known]
        growth = _in_cycles(kept, known) or judge(kept, births, places.calls[kept.place], links_alone)
        line = _Line(kept, growth, known)
        why = growth.why if growth.verdict == "bounded" else _why_no_leak(known)
        gone = growth.stretch is not None and not growth.stretch.goes_on
        if growth.verdict == "steady" or (gone and not known):  # too little for anybody to have looked who keeps it
            continue
        if why == _LOG:
            numbers.append(line)
        elif why:
            quiet.append(_quiet(line, why))
        else:
            growing.append(line)
    grown = {link.holder.key for line in growing for _, link in line.links}
    for line in numbers:  # beside larger things they are a part of what grows
        if line.links[0][1].holder.key in grown:
            growing.append(line)
        else:
            quiet.append(_quiet(line, _LOG))
    findings = [found for found in _findings(growing, training, births) if found.rate.nbytes or found.nodes]
    alive = births.alive_bytes()
    for joined in births.joined.values():
        if joined.place in mine:
            findings = _with_joined(findings, quiet, joined, training, alive)
    findings += _chains(nodes, findings, births, mine)
    if not findings:
        real = [one for one in quiet if one.why != _LOG]
        return Part(name, seen, "bounded" if real else "steady", None, (), tuple(quiet))
    rates = [found.rate for found in findings]
    together: Counter[int] = Counter()
    for line in growing:
        together.update(line.growth.stretch.values if line.growth.stretch else {})
    if together:
        rates = [rate_of([together[call] for call in sorted(together)])]
        rates += [found.rate for found in findings if found.joined]
    total = Rate(
        sum(one.nbytes for one in rates), sum(one.low for one in rates), sum(one.high for one in rates), rates[0].calls
    )
    findings.sort(key=lambda found: -found.host_bytes)
    return Part(name, seen, "growing", total, tuple(findings), tuple(quiet))


def _quiet(line: _Line, why: str) -> Quiet:
    holder = line.links[0][1].holder if line.links else NOBODY
    stretch = line.growth.stretch
    nbytes = sum(line.kept.alive.values())
    grown = None if stretch is None else _grown([line])
    return Quiet(holder, (line.kept.site,), why, nbytes, grown, keeping_line(holder) if grown else None)


def _in_cycles(kept: Kept, links: Links) -> Growth | None:
    """What piles up in cycles until Python's collector happens to run; None where cycles do not keep it.

    Whether there is much or nothing at the end is chance, so what there was when it was looked at counts, of the calls
    that the collector had taken nothing from: it takes a part of one at times.
    """
    if not links or any(link.holder.kind != "cycle" for _, link in links):
        return None
    values = kept.looked_at
    if len(values) < LEAST_CALLS:
        return None
    if len(kept.ended) > 1 and not all(link.holder.name.startswith("ctx.") for _, link in links):
        return Growth("bounded", why="it lies in cycles, which Python's garbage collector frees now and then")
    whole = statistics.median(values.values())
    counted = {call: values[call] for call in sorted(values) if values[call] >= whole}
    return Growth("growing", Stretch(counted, sum(values.values())), len(kept.ended))


def _why_no_leak(links: Links) -> str:
    """Why something that has grown up to now is no leak; "" where it is one."""
    for _, link in links:
        if link.holder.limit is not None:
            return f"{link.holder.name} holds {link.holder.limit} at most"
    small = links and all(nbytes <= _LOG_BYTES and not link.history for nbytes, link in links)
    return _LOG if small and not any(link.graph for _, link in links) else ""


def _findings(growing: Sequence[_Line], training: bool, births: Births) -> Iterator[Finding]:
    by_holder: dict[tuple[str, ...], list[tuple[_Line, float]]] = {}
    for line in growing:
        known = line.links or [(1, Link(NOBODY, False))]
        total = sum(nbytes for nbytes, _ in known)
        split: dict[tuple[str, ...], list[tuple[int, Link]]] = {}
        for nbytes, link in known:
            split.setdefault(link.holder.key, []).append((nbytes, link))
        for key, part in split.items():
            share = sum(nbytes for nbytes, _ in part) / max(1, total)
            by_holder.setdefault(key, []).append((_Line(line.kept, line.growth, part), share))
    for parts in by_holder.values():
        yield _finding(parts, training, births)


def _any_number(inside: str) -> str:
    return re.sub(r"\[\d+\]", "[...]", inside)


def _grown(lines: Sequence[_Line]) -> Grown:
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


def _finding(parts: Sequence[tuple[_Line, float]], training: bool, births: Births) -> Finding:
    values: Counter[int] = Counter()
    made: Counter[Site] = Counter()
    saved: Counter[str] = Counter()
    series: Counter[int] = Counter()
    graph_bytes = 0.0
    for line, share in parts:
        of_calls = line.growth.stretch.values if line.growth.stretch else {}
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
    also = {other.key: other for link in every_link for other in link.also if other.key != holder.key}
    stretches = [line.growth.stretch for line, _ in parts if line.growth.stretch]
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
        also=tuple((other, keeping_line(other)) for other in also.values()),
        inside=tuple(sorted(text for text, _ in insides.most_common(3))),
        error=any(link.error for link in every_link),
        history=any(link.history for link in every_link),
        series=tuple(sorted(series.items())),
        nodes=max((link.nodes for link in every_link), default=0),
        needed_later=any(delay(stretch, births) for stretch in stretches),
        grown=_grown([line for line, _ in parts]),
    )


def _with_joined(
    findings: list[Finding], quiet: list[Quiet], joined: Joined, training: bool, alive: int
) -> list[Finding]:
    """Adds what is joined to itself. What such a line joins and the graph that this keeps are one finding."""
    now = joined.stretch()
    stretches = [*joined.ended, *([now] if now is not None else [])]
    if not stretches:
        return findings
    stretch = now if now is not None and now.goes_on else max(stretches, key=lambda one: one.peak)
    grown = Grown(min(stretch.values), max(stretch.values), stretch.peak, stretch.goes_on, len(joined.ended))
    if not stretch.goes_on:
        if stretch.peak >= _CONSIDERABLE * (alive + stretch.peak):
            why = "it is given back when its loop ends"
            quiet.append(Quiet(joined.holder, (joined.site,), why, 0, grown, joined.site))
        return findings
    rate = rate_of(list(stretch.values.values()))
    made = (Made(joined.site, rate.nbytes),)
    same = [at for at, one in enumerate(findings) if (one.line, one.holder.name) == (joined.site, joined.holder.name)]
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


def _chains(nodes: Nodes, said: Sequence[Finding], births: Births, places: set[int]) -> Iterator[Finding]:
    """The variables whose graph leads to many calls, and that no finding on bytes names."""
    named = {_known_by(holder) for found in said for holder in (found.holder, *(other for other, _ in found.also))}
    for chain in nodes.chains.values():
        holder = chain.link.holder
        mine = Counter(births.place_of[call] for call in chain.counts).most_common(1)[0][0] in places
        if not mine or _known_by(holder) in named or chain.leads_to & nodes.chains.keys():
            continue
        line = keeping_line(holder)
        calls = sorted(chain.counts)
        yield Finding(
            holder=replace(holder, name=as_written(holder, line)), line=line, made=(),
            rate=Rate(0, 0, 0, len(calls)), graph_bytes=0, saved=(), training=True,
            scalar=chain.link.scalar, direct=chain.link.direct, history=True, nodes=chain.rate,
            grown=Grown(calls[0], calls[-1], NODE_BYTES * sum(chain.counts.values()), chain.goes_on, 0),
        )  # fmt: skip


def _known_by(holder: Holder) -> tuple[tuple[str, str], str]:
    return holder.tail, holder.file

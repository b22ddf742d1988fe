"""Makes a report of what was counted (``build_report``)."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from course_utils.base.user_code import Site
from course_utils.holders.holder import CACHE_OF, NOBODY, Link
from course_utils.holders.lines import as_written, keeping_line
from course_utils.leaks.births import Births
from course_utils.leaks.findings import Finding, GrowthReport, Made, Part, Quiet
from course_utils.leaks.joined import joined_findings
from course_utils.leaks.kept import Kept
from course_utils.leaks.verdict import LEAST_CALLS, Growth, Rate, calls_of, judge, rate_of

LEAST_ROUND = 8
"""A graph that grows over so many evaluation calls is growth, also where it is given back when the loop ends."""

_LOG_BYTES = 16


def build_report(
    births: Births,
    links: Mapping[int, Sequence[tuple[int, Link]]],
    modules: Mapping[str, int],
    warm_up: int,
    limit_bytes: int | None,
) -> GrowthReport:
    """Judges everything that was counted.

    Args:
        births: what was counted.
        links: how samples of what each line left behind are kept, with their bytes, by the ``id`` of its ``Kept``.
        modules: how often each class of module was called.
        warm_up: calls of each kind that are not judged.
        limit_bytes: the memory that can fill up.
    """
    allocated = None
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        allocated = torch.cuda.memory_allocated()
        if limit_bytes is None:
            limit_bytes = torch.cuda.mem_get_info()[1]
    parts = [_part(name, births, links, warm_up) for name in ("training", "evaluation")]
    unwatched = ["Compiled code ran. What it allocates inside is not watched."] if births.compiled else []
    return GrowthReport(
        births.call, dict(modules), parts[0], parts[1], births.alive_bytes(), allocated, limit_bytes, tuple(unwatched),
        births.every, totals=_totals(births),
    )  # fmt: skip


def _totals(births: Births) -> tuple[tuple[int, int], ...]:
    calls = sorted({call for kept in births.kept.values() for call, _ in kept.history} | {births.call})
    return tuple((call, sum(kept.total_at(call) for kept in births.kept.values())) for call in calls)


def _part(name: str, births: Births, links: Mapping[int, Sequence[tuple[int, Link]]], warm_up: int) -> Part:
    training = name == "training"
    seen = sum(births.trained[call] == training for call in range(1, births.call + 1))
    calls = calls_of(births, training, warm_up)
    if len(calls) < 4:
        return Part(name, seen, "too few calls", None)
    growing: list[tuple[Kept, Growth, Sequence[tuple[int, Link]]]] = []
    numbers: list[tuple[Kept, Growth, Sequence[tuple[int, Link]]]] = []
    quiet: list[Quiet] = []
    for kept in list(births.kept.values()):
        known = links.get(id(kept), ())
        growth = _in_cycles(kept, births, training, known) or judge(kept, births, calls)
        if growth.verdict == "steady":
            continue
        why = growth.why or _why_no_leak(growth, known, training)
        if why == _LOG:
            numbers.append((kept, growth, known))
        elif why:
            holder = known[0][1].holder if known else NOBODY
            quiet.append(Quiet(holder, (kept.site,), why, sum(kept.alive.values())))
        else:
            growing.append((kept, growth, known))
    grown = {link.holder.key for *_, links_of in growing for _, link in links_of}
    for one in numbers:  # beside larger things they are a part of what grows
        if one[2][0][1].holder.key in grown:
            growing.append(one)
        else:
            quiet.append(Quiet(one[2][0][1].holder, (one[0].site,), _LOG, sum(one[0].alive.values())))
    joined = tuple(joined_findings(births, training, warm_up))
    findings = _together(_findings(growing, training), joined)
    if not findings:
        real = [one for one in quiet if one.why != _LOG]
        return Part(name, seen, "bounded" if real else "steady", None, (), tuple(quiet))
    together: Counter[int] = Counter()
    for _, growth, _ in growing:
        together.update(growth.values)
    rates = [rate_of([together[call] for call in sorted(together)])] if together else []
    rates += [found.rate for found in joined]
    low, high = sum(one.low for one in rates), sum(one.high for one in rates)
    rate = Rate(sum(one.nbytes for one in rates), low, high, rates[0].calls)
    return Part(name, seen, "growing", rate, findings, tuple(quiet))


def _together(findings: Sequence[Finding], joined: Sequence[Finding]) -> tuple[Finding, ...]:
    """What is joined to itself on a line, and the graph that this keeps, are one finding."""
    both = list(findings)
    for found in joined:
        same = [at for at, one in enumerate(both) if (one.line, one.holder.name) == (found.line, found.holder.name)]
        if same:
            of, more = both[same[0]].rate, found.rate
            rate = Rate(of.nbytes + more.nbytes, of.low + more.low, of.high + more.high, of.calls)
            both[same[0]] = replace(both[same[0]], made=both[same[0]].made + found.made, rate=rate)
        else:
            both.append(found)
    return tuple(both)


_LOG = "a log of single numbers"


def _in_cycles(kept: Kept, births: Births, training: bool, links: Sequence[tuple[int, Link]]) -> Growth | None:
    """What piles up in cycles until Python's collector happens to run; None where cycles do not keep it.

    Whether there is much or nothing at the end is chance, so what there was when it was looked at counts, of the calls
    that the collector had taken nothing from: it takes a part of one at times.
    """
    if not links or any(link.holder.kind != "cycle" for _, link in links):
        return None
    values = {call: nbytes for call, nbytes in kept.looked_at.items() if births.trained[call] == training}
    if len(values) < LEAST_CALLS:
        return None
    if len(kept.given_back) > 1 and not all(link.holder.name.startswith("ctx.") for _, link in links):
        return Growth("bounded", {}, why="it lies in cycles, which Python's garbage collector frees now and then")
    whole = statistics.median(values.values())
    repeated = max((calls_alive for calls_alive, _ in kept.given_back), default=0)
    return Growth("growing", {call: values[call] for call in sorted(values) if values[call] >= whole}, repeated)


def _why_no_leak(growth: Growth, links: Sequence[tuple[int, Link]], training: bool) -> str:
    """Why something that has grown up to now is no leak; "" where it is one."""
    for _, link in links:
        if link.holder.limit is not None:
            return f"{link.holder.name} holds {link.holder.limit} at most"
    graph = any(link.graph for _, link in links)
    cycle = bool(links) and all(link.holder.kind == "cycle" for _, link in links)
    if growth.repeated and not cycle and (training or not graph or growth.repeated < LEAST_ROUND):
        return "it is given back when its loop ends"
    small = links and all(nbytes <= _LOG_BYTES and not link.history for nbytes, link in links)
    if small and not graph:
        return _LOG
    return ""


def _findings(
    growing: Sequence[tuple[Kept, Growth, Sequence[tuple[int, Link]]]], training: bool
) -> tuple[Finding, ...]:
    by_holder: dict[tuple[str, ...], list[tuple[Kept, Growth, float, list[tuple[int, Link]]]]] = {}
    for kept, growth, known in growing:
        known = known or [(1, Link(NOBODY, False))]
        total = sum(nbytes for nbytes, _ in known)
        split: dict[tuple[str, ...], list[tuple[int, Link]]] = {}
        for nbytes, link in known:
            split.setdefault(link.holder.key, []).append((nbytes, link))
        for key, part in split.items():
            share = sum(nbytes for nbytes, _ in part) / max(1, total)
            by_holder.setdefault(key, []).append((kept, growth, share, part))
    findings = [_finding(parts, training) for parts in by_holder.values()]
    return tuple(sorted(findings, key=lambda found: -found.rate.nbytes))


def _finding(parts: Sequence[tuple[Kept, Growth, float, list[tuple[int, Link]]]], training: bool) -> Finding:
    values: Counter[int] = Counter()
    made: Counter[Site] = Counter()
    saved: Counter[str] = Counter()
    series: Counter[int] = Counter()
    graph_bytes = 0.0
    for kept, growth, share, links in parts:
        rate = share * sum(growth.values.values()) / max(1, len(growth.values))
        for call, nbytes in growth.values.items():
            values[call] += round(nbytes * share)
        made[kept.site] += round(rate)
        for call, total in kept.history:
            series[call] += round(total * share)
        size = max(1, sum(nbytes for nbytes, _ in links))
        for nbytes, link in links:
            if link.graph:
                graph_bytes += rate * nbytes / size
            if link.saved:
                saved[f"{link.saved} {link.tensor}"] += round(rate * nbytes / size)
    every_link = [link for *_, links in parts for _, link in links]
    insides = Counter(link.inside for link in every_link if link.inside and not link.holder.name.startswith(CACHE_OF))
    holder = max((link.holder for link in every_link), key=lambda one: one.count)
    line = keeping_line(holder, {site.file for site in made})
    also = {other.key: other for link in every_link for other in link.also if other.key != holder.key}
    return Finding(
        holder=replace(holder, name=as_written(holder, line)),
        line=line,
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
        given_back=any(growth.repeated for _, growth, _, _ in parts),
        series=tuple(sorted(series.items())),
    )

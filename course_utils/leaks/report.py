"""Makes a report of what was counted (``build_report``)."""

import statistics
from collections import Counter
from collections.abc import Mapping

import torch

from course_utils.holders.holder import NOBODY
from course_utils.leaks.births import Births
from course_utils.leaks.findings import GrowthReport, Part, Quiet
from course_utils.leaks.found import Line, Links, chains_of, findings_of, grown_of, known_by, with_joined
from course_utils.leaks.kept import Kept, Stretch
from course_utils.leaks.nodes import Nodes
from course_utils.leaks.process import Process
from course_utils.leaks.verdict import LEAST_CALLS, Growth, Places, Rate, judge, rate_of
from course_utils.source.keeping import keeping_line

_LOG_BYTES = 16
_LOG = "a log of single numbers"


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
    return GrowthReport(
        births.call, dict(modules), parts[0], parts[1], births.alive_bytes(), allocated, limit_bytes,
        tuple(process.unwatched()), totals=_totals(births), process=process.growth(),
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
    growing: list[Line] = []
    small: list[tuple[Line, str]] = []
    quiet: list[Quiet] = []
    for kept in list(births.kept.values()):
        if kept.place not in mine:
            continue
        known = links.get(id(kept), ())
        links_alone = [link for _, link in known]
        growth = _in_cycles(kept, known) or judge(kept, births, places.calls[kept.place], links_alone)
        line = Line(kept, growth, known)
        limit = next((link.holder for link in links_alone if link.holder.limit is not None), None)
        if limit is not None and growth.verdict != "steady":
            quiet.append(_quiet(Line(kept, Growth("bounded"), known), f"{limit.name} holds {limit.limit} at most"))
            continue
        why = growth.why if growth.verdict == "bounded" else _LOG if _is_log(known) else ""
        gone = growth.stretch is not None and not growth.stretch.goes_on
        if growth.verdict == "steady" or (gone and not known):  # too little for anybody to have looked who keeps it
            continue
        if not why:
            growing.append(line)
        elif why == _LOG or gone:
            small.append((line, why))
        else:
            quiet.append(_quiet(line, why))
    grown = {link.holder.key for line in growing for _, link in line.links}
    for line, why in small:  # in one container with what grows it is a part of that
        if line.links[0][1].holder.key in grown:
            growing.append(line)
        else:
            quiet.append(_quiet(line, why))
    findings = [found for found in findings_of(growing, training, births) if found.rate.nbytes or found.nodes]
    alive = births.alive_bytes()
    for joined in births.joined.values():
        if joined.place in mine:
            findings = with_joined(findings, quiet, joined, training, alive)
    findings += chains_of(nodes, findings, births, mine)
    named = {known_by(found.holder) for found in findings}
    quiet = [one for one in quiet if one.holder is NOBODY or known_by(one.holder) not in named]
    if not findings:
        real = [one for one in quiet if one.why != _LOG]
        return Part(name, seen, "bounded" if real else "steady", None, (), tuple(quiet))
    rates = [found.rate for found in findings]
    together: Counter[int] = Counter()
    for line in growing:
        together.update(line.growth.values)
    if together and not any(found.joined for found in findings):
        rates = [rate_of([together[call] for call in sorted(together)])]
    total = Rate(
        sum(one.nbytes for one in rates), sum(one.low for one in rates), sum(one.high for one in rates), rates[0].calls
    )
    findings.sort(key=lambda found: -found.host_bytes)
    return Part(name, seen, "growing", total, tuple(findings), tuple(quiet))


def _quiet(line: Line, why: str) -> Quiet:
    holder = line.links[0][1].holder if line.links else NOBODY
    stretch = line.growth.stretch
    nbytes = sum(line.kept.alive.values())
    grown = None if stretch is None else grown_of([line])
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
    return Growth("growing", Stretch(counted, sum(values.values())), counted, len(kept.ended))


def _is_log(links: Links) -> bool:
    return bool(links) and all(nbytes <= _LOG_BYTES and not link.history and not link.graph for nbytes, link in links)

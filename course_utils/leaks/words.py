"""A report in words: as text, and as a card in a notebook (``report_card``)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from course_utils.base import markup
from course_utils.base.document import Block
from course_utils.base.text import aligned, count_of, format_bytes
from course_utils.leaks.advice import Behind, advice, behind, says
from course_utils.leaks.calls import BACKWARD_PASS, LOOP
from course_utils.leaks.nodes import NODE_BYTES

if TYPE_CHECKING:
    from course_utils.leaks.findings import Finding, GrowthReport, Part

_SCOPES = {"variable": ", in the closure of `{}`", "attribute": ", an attribute of `{}`"}
_SCOPES |= {"default": ", a default argument of `{}`", "local": " in `{}`"}
_SAVED_SHOWN, _MADE_SHOWN = 3, 4
_HEADING = "margin:0;padding:0;font-size:1em;font-weight:bold;line-height:1.5"
_SIGNS = {"growing": ("✗", markup.ORANGE), "too few calls": ("-", markup.GREY)}


def report_card(report: GrowthReport) -> Block:
    """The report, as HTML and as text. There a sentence is one line, however long, so that it can be searched for."""
    blocks = list(_blocks(report))
    colour = markup.ORANGE if report.verdict == "growing" else markup.GREEN
    html = markup.beside_line("section", colour, [block.html for block in blocks])
    return Block(html, lambda indent: "\n".join(block.text(indent) for block in blocks))


def _blocks(report: GrowthReport) -> Iterator[Block]:
    yield _said(_headline(report), apart=False)
    if len(report.findings) > 1:
        for at, line in enumerate(_summary(report)):
            yield _said(line, "  ", apart=not at, style=markup.SMALL)
    before = {(found.holder.key, found.line) for found in report.training.findings}
    for part in (report.training, report.evaluation):
        if not part.calls or (_without_modules(report) and part.verdict == "too few calls"):
            continue
        yield _heading(part.verdict, f"{_kind(part).capitalize()}: {_judgement(report, part)}")
        for found in part.findings:
            if part is report.evaluation and (found.holder.key, found.line) in before:
                yield _said(f"{_sentence(found)} As above.", "  ")
            else:
                yield _said(_sentence(found), "  ")
                yield _said(advice(found), "  ", apart=False)
                yield _details(list(_rows(found)), behind(found))
        for found in part.quiet:
            yield _said(_quiet(found), "  ", apart=False, style=markup.SMALL)
    for note in _notes(report):
        yield _said(note, style=markup.SMALL)


def _said(text: str, before: str = "", *, apart: bool = True, style: str = markup.PLAIN) -> Block:
    """A paragraph; in a terminal some spaces stand before it, and a line is left free where it stands apart."""
    return Block(markup.paragraph(text, style=style), lambda indent: "\n" * apart + indent + before + text)


def _heading(verdict: str, text: str) -> Block:
    sign = markup.mark(*_SIGNS.get(verdict, ("✓", markup.GREEN)))
    return Block(markup.element("h4", sign, text, style=_HEADING), lambda indent: f"\n{indent}{text}")


def _details(rows: list[tuple[str, str]], course: Behind | None) -> Block:
    """Labels and texts, and where the course explains it."""
    html = markup.html_lines([(label, text.replace("`", "")) for label, text in rows])
    if course is not None:
        link = markup.explained_link(course.notebook.removesuffix(".ipynb"), course.heading)
        about = markup.prose(f"The course on “{course.name}”: ")
        html = markup.Html(html + markup.element("p", about, link, style=markup.SMALL))
        rows.append(("course", f"“{course.name}”: {course.notebook}, “{course.heading}”"))
    return Block(html, lambda indent: textwrap.indent(aligned(rows), f"{indent}    "))


def _summary(report: GrowthReport) -> list[str]:
    """One line for each thing that grows, the greatest first; the same in training and evaluation once."""
    lines: dict[str, int] = {}
    for found in report.findings:
        name = f"`{found.holder.name}`" if found.holder.name else "nobody that was found"
        text = f"{found.line or 'no line of yours'}: {name}"
        lines[text] = lines.get(text, 0) + found.host_bytes
    return [f"{_per_call(nbytes)}  {text}" for text, nbytes in lines.items()]


def _headline(report: GrowthReport) -> str:
    """What was watched, in one line."""
    if not report.calls:
        return says("headline", "nothing")
    if report.rounds_at is not None:
        return says("headline", "rounds", at=report.rounds_at, calls=report.calls)
    if _without_modules(report):
        return says("headline", "backward", calls=report.calls)
    names = ", ".join(f"`{name}`" for name in sorted(report.modules, key=lambda name: -report.modules[name])[:3])
    kinds = [f"{part.calls} {_kind(part)}" for part in (report.training, report.evaluation) if part.calls]
    return f"Memory from call to call: {report.calls} calls of {names} ({', '.join(kinds)})"


def _kind(part: Part) -> str:
    """What is said of a part: calls without a backward pass may be evaluation, or wait for one."""
    if part.name == "training":
        return "with backward"
    return f"without backward, but for {part.trained}" if part.trained else "without backward"


def _without_modules(report: GrowthReport) -> bool:
    return report.modules.keys() <= {BACKWARD_PASS, LOOP}


def _judgement(report: GrowthReport, part: Part) -> str:
    """Steady, bounded or growing, and how fast."""
    if part.verdict == "too few calls":
        return "too few calls to judge; at least 10 are needed."
    if part.rate is None:
        return f"{part.verdict}."
    rate, nodes = part.rate, sum(found.host_bytes - found.rate.nbytes for found in part.findings)
    how = f"{'the same in each' if rate.is_same else 'the mean'} of {count_of(rate.calls, 'call')}"
    if nodes:
        how = f"of tensors, and nodes of graphs at some {NODE_BYTES} bytes each"
    text = f"growing by {_per_call(rate.nbytes + nodes)} ({rate.nbytes} bytes{' ' if nodes else ', '}{how})."
    left = report.calls_until_full(part)
    if left is not None and report.limit_bytes is not None:
        text += f" {format_bytes(report.limit_bytes)} will be full after {left} more calls."
    return text


def _sentence(found: Finding) -> str:
    """Who keeps what, in one sentence or two."""
    holder, amount = found.holder, _per_call(found.rate.nbytes)
    if found.every > 1 and found.every * found.rate.nbytes >= 64:
        amount += f" ({format_bytes(found.every * found.rate.nbytes)} in one of {found.every})"
    if holder.kind == "nobody":
        return f"{amount} are kept by something that the search did not find. {_stretch(found)}".rstrip()
    which, when = "every call", "a call"
    if found.every > 1:
        which, when = f"one call in {found.every}", f"in one call of {found.every}"
    what = f"the graph of {which}" if found.graph_bytes else f"a tensor of {which}"
    if found.takes_in:
        what = "a tensor that takes in more with every call"
    nodes = f"{count_of(found.nodes, 'node')} {when}, some {format_bytes(NODE_BYTES * found.nodes)} of host memory"
    if found.nodes and not found.graph_bytes:
        what, amount = f"{what} and what is left of its graph", f"{amount}, and {nodes}"
    at = f" ({found.line})" if found.line is not None else ""
    if holder.kind == "cycle":
        return says("notes", "cycle", name=holder.name, where=holder.where, at=at, what=what, amount=amount)
    subject = f"`{found.line.source}`{at}" if found.line is not None else f"`{holder.name}`"
    text = f"{subject} keeps {what}: {amount}."
    if found.nodes and not found.rate.nbytes:
        text = says("notes", "nodes", subject=subject, nodes=nodes)
    return f"{text} {_stretch(found)}".rstrip()


def _stretch(found: Finding) -> str:
    """Over which calls something grew that was given back, how much it was at most, and when it was given back."""
    grown = found.grown
    if grown is None:
        return ""
    peak = format_bytes(grown.peak)
    if grown.goes_on and not grown.times:
        return f"{peak} in all, from call {grown.first} to {grown.last}."
    over = f"It grew over {count_of(grown.last - grown.first + 1, 'call')} (from call {grown.first} to {grown.last})"
    if grown.goes_on:
        return f"{over}, to {peak} so far. It is given back when the loop ends, and grows with the next."
    holder, at = found.holder, grown.given_back_at
    when = f"at {at}" if at.file else "when the loop ended"
    if holder.scope == "local" and holder.where and holder.where != at.function and holder.where != "<module>":
        when = f"when `{holder.where.rpartition('.')[2]}` returned"
    times = f", {grown.times} times" if grown.times > 1 else ""
    return f"{over}, to {peak} at most, and was given back {when}{times}."


def _rows(found: Finding) -> Iterator[tuple[str, str]]:
    """The details of a finding: labels and texts."""
    if found.holder.kind != "nobody":
        yield "kept by", _holder(found)
    if found.inside:
        yield "in each", ", ".join(text if text.startswith("`") else f"`{text}`" for text in found.inside)
    for made in found.made[:_MADE_SHOWN]:
        yield "made by", f"{made.site}{'  ' * bool(made.site.file)}{made.site.source}  ({_per_call(made.nbytes)})"
    if found.graph_bytes:
        yield "graph", f"{_per_call(found.graph_bytes)} of it is held by the recorded graph"
    for name, nbytes in found.saved[:_SAVED_SHOWN]:
        yield "saved by", f"{name}  ({_per_call(nbytes)})"


def _per_call(nbytes: int) -> str:
    return f"{format_bytes(nbytes)} per call"


def _holder(found: Finding) -> str:
    holder, text = found.holder, f"`{found.holder.name}`"
    at = f", {found.line}" if found.line is not None else ""
    if holder.kind == "cycle":
        return f"a cycle through {text} of `{holder.where}`{at}"
    if holder.kind == "building":
        return f"{holder.name} in `{holder.where}`, {holder.count} in it{at}"
    if holder.container:
        is_there = found.grown is None or found.grown.goes_on  # else it is known as it was once
        text += f", a {holder.container}" + (f" of {holder.count}" if is_there else "")
    text += _SCOPES.get(holder.scope, ", a global").format(holder.where)
    return text + (f", through {holder.hook}" if holder.hook else "") + at


def _quiet(found: Finding) -> str:
    """What stays and is no leak, or stayed for a time."""
    name = found.holder.name or str(found.made[0].site)
    name = name if found.holder.kind == "building" else f"`{name}`"
    if found.grown is None or found.grown.goes_on:
        return f"Not a leak: {name}, {format_bytes(found.at_end)} at the end; {found.why}."
    return f"Given back: {name}{f' ({found.line})' if found.line is not None else ''}. {_stretch(found)}"


def _notes(report: GrowthReport) -> Iterator[str]:
    """What limits the report."""
    yield from (f"Not watched: {note}" for note in report.unwatched)
    if report.allocated_bytes is not None:
        allocated, alive = format_bytes(report.allocated_bytes), format_bytes(report.alive_bytes)
        yield says("notes", "cuda", allocated=allocated, alive=alive)
    grew, process = report.grew, report.process
    if grew is not None and (report.findings or not grew.all_named):
        named = "all" if grew.all_named else format_bytes(max(0, grew.named))
        text = says("notes", "grew", nbytes=format_bytes(grew.nbytes), first=grew.first, last=grew.last, named=named)
        rest = ", ".join(f"{made.site} ({format_bytes(made.nbytes)})" for made in grew.rest)
        yield text if grew.all_named else f"{text} {says('notes', 'rest', rest=rest)}"
    if process is not None:
        nbytes, tensors = format_bytes(process.nbytes), format_bytes(process.named)
        yield says("notes", "process", nbytes=nbytes, calls=process.last - process.first, tensors=tensors)

"""A report in words, for a terminal (``report_text``); its sentences serve the card too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from course_utils.base.text import aligned, format_bytes
from course_utils.leaks.advice import advice, behind
from course_utils.leaks.calls import BACKWARD_PASS, LOOP
from course_utils.leaks.nodes import NODE_BYTES

if TYPE_CHECKING:
    from course_utils.leaks.findings import Finding, GrowthReport, Part, Quiet

KINDS = {"training": "with backward", "evaluation": "without backward"}
"""What is said of a part: calls without a backward pass may be evaluation, or wait for one."""

_SAVED_SHOWN = 3
_MADE_SHOWN = 4


def report_text(report: GrowthReport) -> str:
    """The whole report. A sentence is one line, however long, so that it can be searched for."""
    blocks = [headline(report)]
    if len(report.findings) > 1:
        blocks.append("\n".join(f"  {line}" for line in summary(report)))
    for part in (report.training, report.evaluation):
        if part.calls and not (_without_modules(report) and part.verdict == "too few calls"):
            blocks.append(_part_text(report, part))
    blocks += notes(report)
    return "\n\n".join(blocks)


def summary(report: GrowthReport) -> list[str]:
    """One line for each thing that grows, the greatest first; the same in training and evaluation once."""
    lines: dict[str, int] = {}
    for found in report.findings:
        where = f"{found.line}" if found.line is not None else "no line of yours"
        name = f"`{found.holder.name}`" if found.holder.name else "nobody that was found"
        lines[f"{where}: {name}"] = lines.get(f"{where}: {name}", 0) + found.host_bytes
    return [f"{format_bytes(nbytes)} per call  {text}" for text, nbytes in lines.items()]


def headline(report: GrowthReport) -> str:
    """What was watched, in one line."""
    if not report.calls:
        return (
            "Memory from call to call: no module with parameters was called and no gradient was computed, so there was"
            " nothing to compare.\n"
            "A loop without one can say where a round begins: `growth.step()`, inside `with watch_growth() as growth:`."
        )
    if report.rounds_at is not None:
        return (
            "No module with parameters was called and no gradient was computed. Memory from round to round of the loop"
            f" that comes back to {report.rounds_at}: {report.calls} of them. `growth.step()` says where a round begins"
            " instead."
        )
    if _without_modules(report):
        return (
            f"Memory from one backward pass to the next: {report.calls} of them. No module with parameters was called."
        )
    names = ", ".join(f"`{name}`" for name in sorted(report.modules, key=lambda name: -report.modules[name])[:3])
    kinds = [f"{part.calls} {KINDS[part.name]}" for part in (report.training, report.evaluation) if part.calls]
    return f"Memory from call to call: {report.calls} calls of {names} ({', '.join(kinds)})"


def _without_modules(report: GrowthReport) -> bool:
    return report.modules.keys() <= {BACKWARD_PASS, LOOP}


def _part_text(report: GrowthReport, part: Part) -> str:
    lines = [f"{KINDS[part.name].capitalize()}: {judgement(report, part)}"]
    before = {(one.holder.key, one.line) for one in report.training.findings} if part is report.evaluation else set()
    for found in part.findings:
        again = (found.holder.key, found.line) in before
        lines += ["", *([f"  {sentence(found)} As above."] if again else _finding_lines(found))]
    lines += [f"  {text}" for text in quiet_of(part)]
    return "\n".join(lines)


def _finding_lines(found: Finding) -> list[str]:
    return [
        f"  {sentence(found)}",
        f"  {advice(found)}",
        *(f"    {row}" for row in aligned(rows(found)).splitlines()),
    ]


def judgement(report: GrowthReport, part: Part) -> str:
    """Steady, bounded or growing, and how fast."""
    if part.verdict == "too few calls":
        return "too few calls to judge; at least 10 are needed."
    if part.rate is None:
        return f"{part.verdict}."
    rate = part.rate
    host = sum(found.host_bytes - found.rate.nbytes for found in part.findings)
    text = f"growing by {format_bytes(rate.nbytes + host)} per call"
    if host:
        text += f" ({rate.nbytes} bytes of tensors, and nodes of graphs at some {NODE_BYTES} bytes each)."
    elif rate.low == rate.high:
        text += f" ({rate.nbytes} bytes, the same in each of {_count(rate.calls, 'call')})."
    else:
        text += f" ({rate.nbytes} bytes; between {rate.low} and {rate.high} with 95 % confidence, {rate.calls} calls)."
    left = report.calls_until_full(part)
    if left is not None and report.limit_bytes is not None:
        text += f" {format_bytes(report.limit_bytes)} will be full after {left} more calls."
    return text


def _count(number: int, thing: str) -> str:
    return f"1 {thing}" if number == 1 else f"{number} {thing}s"


def sentence(found: Finding) -> str:
    """Who keeps what, in one sentence or two."""
    holder, amount = found.holder, f"{format_bytes(found.rate.nbytes)} per call"
    if holder.kind == "nobody":
        return f"{amount} are kept by something that the search did not find. {stretch_words(found)}".rstrip()
    what = "the graph of every call" if found.graph_bytes else "a tensor of every call"
    if found.joined:
        what = "a tensor that takes in more with every call"
    only_nodes = found.nodes and not found.graph_bytes
    if only_nodes and found.rate.nbytes:
        what += " and what is left of its graph"
        amount += f", and {_nodes(found)}"
    at = f" ({found.line})" if found.line is not None else ""
    if holder.kind == "cycle":
        text = (
            f"A cycle through `{holder.name}` of `{holder.where}`{at} keeps {what}: {amount}. Only Python's garbage"
            " collector frees it, and it does not know how large tensors are."
        )
        return text + (" It ran meanwhile, and gave back what there was." if found.given_back else "")
    subject = f"`{found.line.source}`{at}" if found.line is not None else f"`{holder.name}`"
    if only_nodes and not found.rate.nbytes:
        text = (
            f"The graph behind {subject} grows by {_nodes(found)}. Bytes of tensors do not grow with it: backward has"
            " freed what the nodes saved. The nodes themselves stay, and whatever walks the graph later has a longer"
            " and longer way."
        )
    else:
        text = f"{subject} keeps {what}: {amount}."
    return f"{text} {stretch_words(found)}".rstrip()


def _nodes(found: Finding) -> str:
    """How many nodes, and what they take in memory."""
    return f"{_count(found.nodes, 'node')} a call, some {format_bytes(NODE_BYTES * found.nodes)} of host memory"


def stretch_words(found: Finding | Quiet) -> str:
    """Over which calls something grew that was given back, how much it was at most, and when it was given back."""
    grown = found.grown
    if grown is None or (grown.goes_on and not grown.times):
        return ""
    if grown.goes_on:
        return "It is given back when the loop ends, and grows again with the next."
    holder, at = found.holder, grown.given_back_at
    when = "when the loop ended"
    if holder.scope == "local" and holder.where and holder.where != at.function and holder.where != "<module>":
        when = f"when `{holder.where.rpartition('.')[2]}` returned"
    elif at.file:
        when = f"at {at}"
    times = f", {grown.times} times" if grown.times > 1 else ""
    return (
        f"It grew over {_count(grown.last - grown.first + 1, 'call')} (from call {grown.first} to {grown.last}), to"
        f" {format_bytes(grown.peak)} at most, and was given back {when}{times}."
    )


def rows(found: Finding) -> list[tuple[str, str]]:
    """The details of a finding: labels and texts."""
    lines = []
    if found.holder.kind != "nobody":
        lines.append(("kept by", _holder_words(found)))
    if found.inside:
        lines.append(("in each", ", ".join(text if text.startswith("`") else f"`{text}`" for text in found.inside)))
    for made in found.made[:_MADE_SHOWN]:
        text = f"{made.site}  {made.site.source}" if made.site.file else "no line of yours"
        lines.append(("made by", f"{text}  ({format_bytes(made.bytes_per_call)} per call)"))
    if found.graph_bytes:
        lines.append(("graph", f"{format_bytes(found.graph_bytes)} per call of it is held by the recorded graph"))
    for name, nbytes in found.saved[:_SAVED_SHOWN]:
        lines.append(("saved by", f"{name}  ({format_bytes(nbytes)} per call)"))
    course = behind(found)
    if course is not None:
        lines.append(("course", f"“{course.name}”: {course.notebook}, “{course.heading}”"))
    return lines


def _holder_words(found: Finding) -> str:
    holder = found.holder
    text = f"`{holder.name}`"
    at = f", {found.line}" if found.line is not None else ""
    if holder.kind == "cycle":
        return f"a cycle through {text} of `{holder.where}`{at}"
    if holder.kind == "building":
        return f"{holder.name} in `{holder.where}`, {holder.count} in it{at}"
    if holder.container:
        text += f", a {holder.container} of {holder.count}"
    if holder.scope == "variable":
        text += f", in the closure of `{holder.where}`"
    elif holder.scope == "attribute":
        text += f", an attribute of `{holder.where}`"
    elif holder.scope == "default":
        text += f", a default argument of `{holder.where}`"
    elif holder.scope == "local":
        text += f" in `{holder.where}`"
    else:
        text += ", a global"
    if holder.hook:
        text += f", through {holder.hook}"
    return text + at


def quiet_of(part: Part) -> list[str]:
    """What stays and is no leak, or stayed for a time: a sentence for each holder and reason."""
    together: dict[tuple[str, str], list[Quiet]] = {}
    for one in part.quiet:
        together.setdefault((one.holder.name or str(one.sites[0]), one.why), []).append(one)
    return [_quiet_words(name, why, several) for (name, why), several in together.items()]


def _quiet_words(name: str, why: str, several: list[Quiet]) -> str:
    nbytes = sum(one.nbytes for one in several)
    largest = max(several, key=lambda one: 0 if one.grown is None else one.grown.peak)
    if largest.grown is None or largest.grown.goes_on:
        return f"Not a leak: `{name}`, {format_bytes(nbytes)} at the end; {why}."
    peak = sum(one.grown.peak for one in several if one.grown is not None)
    largest = replace(largest, grown=replace(largest.grown, peak=peak))
    line = f" ({largest.line})" if largest.line is not None else ""
    name = name if largest.holder.kind == "building" else f"`{name}`"
    return f"Given back: {name}{line}. {stretch_words(largest)}"


def notes(report: GrowthReport) -> list[str]:
    """What limits the report."""
    texts = [f"Not watched: {note}" for note in report.unwatched]
    if report.allocated_bytes is not None:
        texts.append(
            f"CUDA's allocator says {format_bytes(report.allocated_bytes)} allocated; the storages counted here come to"
            f" {format_bytes(report.alive_bytes)}."
        )
    if report.process is not None:
        grew = report.process
        who = "The processes that it started grew together" if grew.workers else "The process itself grew"
        first = ""
        if any(found.nodes for found in report.findings):
            first = (
                " Mend what grows above first: small things that stay, such as nodes, lie between larger ones that were"
                " freed, and the allocator cannot use that memory again."
            )
        texts.append(
            f"{who} by {format_bytes(grew.nbytes)} over {grew.calls} calls; tensors explain"
            f" {format_bytes(grew.tensors)} of it.{first} Look at NumPy arrays, Python lists and dictionaries, and at"
            " what a data set keeps in its workers: `tracemalloc` names the lines that made Python's own objects."
        )
    return texts

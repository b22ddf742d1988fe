"""A report in words, for a terminal (``report_text``); its sentences serve the card too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.base.text import aligned, format_bytes
from course_utils.leaks.advice import advice, behind
from course_utils.leaks.calls import BACKWARD_PASS

if TYPE_CHECKING:
    from course_utils.leaks.findings import Finding, GrowthReport, Part

_SAVED_SHOWN = 3
_MADE_SHOWN = 4


def report_text(report: GrowthReport) -> str:
    """The whole report. A sentence is one line, however long, so that it can be searched for."""
    blocks = [headline(report)]
    for part in (report.training, report.evaluation):
        if part.calls and not (_without_modules(report) and part.verdict == "too few calls"):
            blocks.append(_part_text(report, part))
    blocks += ["\n".join(_finding_lines(found)) for found in report.chains]
    blocks += notes(report)
    return "\n\n".join(blocks)


def headline(report: GrowthReport) -> str:
    """What was watched, in one line."""
    if not report.calls:
        return (
            "Memory from call to call: no module with parameters was called and no gradient was computed, so there was"
            " nothing to compare.\n"
            "A loop without one can say where a round begins: growth.step(), inside `with watch_growth() as growth:`."
        )
    if _without_modules(report):
        return (
            f"Memory from one backward pass to the next: {report.calls} of them. No module with parameters was called."
        )
    names = ", ".join(f"`{name}`" for name in sorted(report.modules, key=lambda name: -report.modules[name])[:3])
    kinds = [f"{part.calls} {part.name}" for part in (report.training, report.evaluation) if part.calls]
    return f"Memory from call to call: {report.calls} calls of {names} ({', '.join(kinds)})"


def _without_modules(report: GrowthReport) -> bool:
    return report.modules.keys() == {BACKWARD_PASS}


def _part_text(report: GrowthReport, part: Part) -> str:
    lines = [f"{part.name.capitalize()}: {judgement(report, part)}"]
    for found in part.findings:
        lines += ["", *_finding_lines(found)]
    lines += [f"  {quiet_words(one)}" for one in quiet_of(part)]
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
    text = f"growing by {format_bytes(rate.nbytes)} per call"
    if rate.low == rate.high:
        text += f" ({rate.nbytes} bytes, the same in each of {rate.calls} calls)."
    else:
        text += f" ({rate.nbytes} bytes; between {rate.low} and {rate.high} with 95 % confidence, {rate.calls} calls)."
    left = report.calls_until_full(part)
    if left is not None and report.limit_bytes is not None:
        text += f" {format_bytes(report.limit_bytes)} will be full after {left} more calls."
    return text


def sentence(found: Finding) -> str:
    """Who keeps what, in one sentence or two."""
    holder, amount = found.holder, f"{format_bytes(found.rate.nbytes)} per call"
    if holder.kind == "nobody":
        return f"{amount} are kept by something that the search did not find."
    what = "the graph of every call" if found.graph_bytes else "a tensor of every call"
    if found.history and not found.graph_bytes:
        what += " and what is left of its graph"
    if holder.kind == "cycle":
        at = f" ({found.line})" if found.line is not None else ""
        text = (
            f"A cycle through `{holder.name}` of `{holder.where}`{at} keeps {what}: {amount}. Only Python's garbage"
            " collector frees it, and it does not know how large tensors are."
        )
    else:
        line = found.line
        subject = f"`{line.source}` ({line})" if line is not None else f"`{holder.name}`"
        text = f"{subject} keeps {what}: {amount}."
        if found.nodes:
            nodes = "1 node" if found.nodes == 1 else f"{found.nodes} nodes"
            text = (
                f"The graph behind {subject} grows by {nodes} a call. Bytes of tensors do not grow with it: backward"
                " has freed what the nodes saved. The nodes themselves stay, in host memory, several hundred bytes"
                " each, and whatever walks the graph later has a longer and longer way."
            )
    if found.given_back and holder.kind == "cycle":
        text += " It ran meanwhile, and gave back what there was."
    elif found.given_back:
        text += " It is given back when the loop ends, and grows again with the next."
    return text


def rows(found: Finding) -> list[tuple[str, str]]:
    """The details of a finding: labels and texts."""
    lines = []
    if found.holder.kind != "nobody":
        lines.append(("kept by", _holder_words(found)))
    for other, line in found.also:
        lines.append(("kept too by", f"`{other.name}`" + (f", {line}  {line.source}" if line is not None else "")))
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
    if holder.kind == "chain":
        text += f", the end of a chain of `{holder.container}`"
    elif holder.container:
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


def quiet_of(part: Part) -> list[tuple[str, str, int]]:
    """What stays and is no leak, one entry for each holder and reason: name, reason, bytes."""
    together: dict[tuple[str, str], int] = {}
    for one in part.quiet:
        name = one.holder.name or str(one.sites[0])
        together[name, one.why] = together.get((name, one.why), 0) + one.nbytes
    return [(name, why, nbytes) for (name, why), nbytes in together.items()]


def quiet_words(one: tuple[str, str, int]) -> str:
    """A sentence on something that is no leak."""
    name, why, nbytes = one
    return f"Not a leak: `{name}`, {format_bytes(nbytes)} at the end; {why}."


def notes(report: GrowthReport) -> list[str]:
    """What limits the report."""
    texts = [f"Not watched: {note}" for note in report.unwatched]
    if report.allocated_bytes is not None:
        texts.append(
            f"CUDA's allocator says {format_bytes(report.allocated_bytes)} allocated; the storages counted here come to"
            f" {format_bytes(report.alive_bytes)}."
        )
    if report.every > 1:
        texts.append(f"One call in {report.every} was watched.")
    return texts

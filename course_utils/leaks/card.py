"""A report as a card in a notebook (``report_html``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.base.markup import (
    GREEN,
    GREY,
    ORANGE,
    SMALL,
    beside_line,
    element,
    explained_link,
    html_lines,
    mark,
    paragraph,
    prose,
)
from course_utils.leaks.advice import advice, behind
from course_utils.leaks.words import KINDS, headline, judgement, notes, quiet_of, rows, sentence

if TYPE_CHECKING:
    from course_utils.leaks.findings import Finding, GrowthReport, Part

_HEADING = "margin:0;padding:0;font-size:1em;font-weight:bold;line-height:1.5"
_SIGNS = {"growing": ("✗", ORANGE), "too few calls": ("-", GREY)}


def report_html(report: GrowthReport) -> str:
    """The report as HTML: training and evaluation, and for each thing that grows who keeps it, and what to write."""
    blocks: list[str] = [paragraph(headline(report))]
    for part in (report.training, report.evaluation):
        if part.calls:
            blocks += _part(report, part)
    blocks += [paragraph(note, style=SMALL) for note in notes(report)]
    return beside_line("section", ORANGE if report.verdict == "growing" else GREEN, blocks)


def _part(report: GrowthReport, part: Part) -> list[str]:
    sign, ground = _SIGNS.get(part.verdict, ("✓", GREEN))
    heading = f"{KINDS[part.name].capitalize()}: {judgement(report, part)}"
    blocks: list[str] = [element("h4", mark(sign, ground), heading, style=_HEADING)]
    for found in part.findings:
        blocks += _finding(found)
    return blocks + [paragraph(text, style=SMALL) for text in quiet_of(part)]


def _finding(found: Finding) -> list[str]:
    lines = html_lines([(label, text.replace("`", "")) for label, text in rows(found) if label != "course"])
    return [paragraph(sentence(found)), paragraph(advice(found)), lines, *_course(found)]


def _course(found: Finding) -> list[str]:
    course = behind(found)
    if course is None:
        return []
    link = explained_link(course.notebook.removesuffix(".ipynb"), course.heading)
    return [element("p", prose(f"The course on “{course.name}”: "), link, style=SMALL)]

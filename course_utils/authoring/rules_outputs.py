"""Rules about what a solution notebook has stored: that nbval can compare it, that it is small, that it can be heard
(``RULES``).

What nbval compares, in strict mode (nbval 0.11, ``IPyNbCell.compare_outputs``): for every cell with an execution
count, and without ``nbval-ignore-output``, each kind of output is collected over the whole cell and compared as text,
in order and in number: ``stdout`` and ``stderr`` (the pieces of each joined), every MIME type of shown values
(``text/plain``, ``text/html``, ``text/markdown``, ``text/latex``, ``image/svg+xml`` among them), and an error's
``ename`` and ``evalue``. It does not compare ``image/png`` and ``image/jpeg``, output metadata, tracebacks, execution
counts, widget ids, and how outputs of different kinds are interleaved. So a score card's HTML is compared to the
letter, a figure only by being there and by its ``text/plain`` (its size in pixels), and a cell whose count is missing
not at all: a notebook that went through a tool which strips outputs passes in silence, which is why ``executed``
below refuses it.
"""

import html
import json
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from course_utils.authoring.problems import Notebook, Problem
from course_utils.authoring.rules_structure import RUN

MAX_NOTEBOOK_BYTES = 700 * 1024
MAX_CELL_BYTES = 150 * 1024
IGNORE_OUTPUT = "nbval-ignore-output"
NOT_COMPARED = ("image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json")

# Each differs from run to run or from machine to machine. The first group is looked for in everything that is compared,
# the second only in what a reader sees, because style sheets are full of times.
ANYWHERE = (
    ("an address", re.compile(r"0x[0-9a-fA-F]{6,}")),
    ("a process id", re.compile(r"\bpid\b\W{0,3}\d+|\bipykernel_\d+", re.IGNORECASE)),
    ("a random id", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")),
    ("a path on one machine", re.compile(r"(?:^|[\s'\"(=])(?:/(?:home|Users|tmp|root|var/folders)/|[A-Z]:\\)\S+")),
)
VISIBLE = (
    ("a time", re.compile(r"\b\d+(?:\.\d+)?(?:e-?\d+)?\s?(?:ns|µs|us|ms|s|sec|seconds?)\b")),
    ("a date or time of day", re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d?:\d\d:\d\d\b")),
)


def executed(notebook: Notebook) -> Iterator[Problem]:
    """Every code cell was run, in order, in one fresh kernel."""
    counts = [cell.node.get("execution_count") for cell in notebook.code]
    if counts and not any(counts):
        what = "No cell has an execution count: never run, or stripped. nbval would compare nothing and pass."
        yield notebook.problem("not-executed", what, f"{RUN} {_stem(notebook)}")
        return
    for cell, count in zip(notebook.code, counts, strict=True):
        if count is None:
            what = "The cell has no execution count, so nbval would not compare it with anything."
            yield notebook.problem("not-executed", what, f"{RUN} {_stem(notebook)}", cell)
    if None not in counts and counts != list(range(1, len(counts) + 1)):
        what = "The cells were not run once each, from the first to the last."
        yield notebook.problem("not-executed", what, f"{RUN} {_stem(notebook)}")


def quiet(notebook: Notebook) -> Iterator[Problem]:
    """Nothing on stderr, no errors that the cell does not announce."""
    for cell in notebook.code:
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                said = output.text.strip().splitlines() or [""]
                what = f"stderr is stored: {said[-1][:100]}"
                if cell.is_check:
                    what += " nbgrader gives no points to a check cell that writes there."
                yield notebook.problem("stderr", what, f"catch or mend the warning, then {RUN} {_stem(notebook)}", cell)
            if output.output_type == "error" and "raises-exception" not in cell.tags:
                what = f"An error is stored: {output.ename}: {output.evalue[:100]}"
                yield notebook.problem("error", what, f"mend the cell, then {RUN} {_stem(notebook)}", cell)
        raised = any(output.output_type == "error" for output in cell.outputs)
        if "raises-exception" in cell.tags and not raised:
            what = "The cell is tagged raises-exception and raises none; the tag alone demands nothing."
            yield notebook.problem("error", what, "let it raise, or take the tag off.", cell)


def checks_score(notebook: Notebook) -> Iterator[Problem]:
    """Every check shows full points, as the bare number that nbgrader reads, and its card."""
    for cell in notebook.code:
        if not cell.is_check:
            continue
        results = [output.data for output in cell.outputs if output.output_type == "execute_result"]
        if not results:
            what = "The check cell has no stored result."
            yield notebook.problem("check-output", what, f"{RUN} {_stem(notebook)}", cell)
        elif results[0].get("text/plain") != repr(cell.points):
            what = f"The solution's check shows {results[0].get('text/plain', '')[:40]}, not {cell.points!r}."
            yield notebook.problem("check-output", what, "mend the solution or the check, then run the notebook.", cell)
        elif "text/html" not in results[0]:
            what = "The check shows no card, only the number."
            yield notebook.problem("check-output", what, "let lesson.check return its Score.", cell)


def comparable(notebook: Notebook) -> Iterator[Problem]:
    """What nbval compares is the same in every run."""
    for cell in notebook.code:
        if IGNORE_OUTPUT in cell.tags:
            continue
        seen = set()
        for text in (text for output in cell.outputs for text in compared_texts(output)):
            found = [(name, pattern.search(text)) for name, pattern in ANYWHERE]
            found += [(name, pattern.search(visible_text(text))) for name, pattern in VISIBLE]
            for name, match in found:
                if match and name not in seen:
                    seen.add(name)
                    what = f"The output holds {name}, which differs from run to run: {match.group().strip()[:60]}"
                    mend = f"show something that stays the same, or tag the cell {IGNORE_OUTPUT}."
                    yield notebook.problem("not-comparable", what, mend, cell)
        if any("image/svg+xml" in output.get("data", {}) for output in cell.outputs):
            what = "A figure is stored as SVG, which matplotlib fills with a date and random ids."
            yield notebook.problem("not-comparable", what, "show it as PNG.", cell)


def compared_texts(output: NotebookNode) -> Iterator[str]:
    """The texts of one output that nbval compares."""
    if output.output_type == "stream":
        yield output.text
    elif output.output_type == "error":
        yield f"{output.ename}: {output.evalue}"
    else:
        for kind, data in output.get("data", {}).items():
            if kind not in NOT_COMPARED and kind != "image/svg+xml":
                yield data if isinstance(data, str) else json.dumps(data)


def visible_text(text: str) -> str:
    """The text without HTML's style sheets, scripts and tags."""
    text = re.sub(r"<(style|script)\b.*?</\1>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    return html.unescape(re.sub(r"</?[a-zA-Z][^<>]*>", " ", text))


def small(notebook: Notebook) -> Iterator[Problem]:
    """The notebook opens fast and diffs well."""
    mend = "show less, or a smaller figure: fewer points, fewer pixels."
    if notebook.size_bytes > MAX_NOTEBOOK_BYTES:
        what = f"The file has {notebook.size_bytes / 1024:.0f} KiB, more than {MAX_NOTEBOOK_BYTES // 1024}."
        yield notebook.problem("size", what, mend)
    for cell in notebook.code:
        size = len(json.dumps(cell.outputs))
        if size > MAX_CELL_BYTES:
            what = f"The cell's outputs have {size / 1024:.0f} KiB, more than {MAX_CELL_BYTES // 1024}."
            yield notebook.problem("size", what, mend, cell)


def figures_speak(notebook: Notebook) -> Iterator[Problem]:
    """Every figure has an alternative text for readers who do not see it."""
    for cell in notebook.code:
        for output in cell.outputs:
            if "image/png" in output.get("data", {}) and not alternative_text(output):
                what = "A figure has no alternative text, so a screen reader can only say that there is one."
                yield notebook.problem(
                    "alternative-text", what, "draw it with course_utils.draw, which writes one.", cell
                )


def alternative_text(output: NotebookNode) -> str:
    """The alternative text stored with a figure; empty where there is none.

    Either ``metadata["image/png"]["alt"]`` or the ``alt`` of an ``<img>`` in the output's HTML.
    """
    stored = output.get("metadata", {}).get("image/png", {})
    if isinstance(stored, dict) and str(stored.get("alt", "")).strip():
        return str(stored["alt"]).strip()
    match = re.search(r"<img\b[^>]*\balt=(\"|')(.*?)\1", output.data.get("text/html", ""), re.DOTALL)
    return html.unescape(match.group(2)).strip() if match else ""


def _stem(notebook: Notebook) -> str:
    return notebook.name.rsplit("/", 1)[-1].removesuffix(".ipynb")


RULES = (executed, quiet, checks_score, comparable, small, figures_speak)

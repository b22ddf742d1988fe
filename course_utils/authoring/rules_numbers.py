"""The rule that ties a number in prose to a cell beside it (``numbers``): a change of code shows what is now false."""

import json
import re
from collections.abc import Iterator

from course_utils.authoring.problems import Cell, Notebook, Problem

WITHIN = 6  # cells before and after: a section and its neighbours
# A number of one digit is found nearly anywhere by chance.
_NUMBER = re.compile(r"(?<![\w.#/-])(?=\d*[.,]?\d)\d+(?:,\d{3})*(?:\.\d+)?(?![\w⁰-⁹⁻]|\.\d)")
_SHOWN = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_EXERCISE = re.compile(r"^### (?:Exercise|Written).*", re.MULTILINE | re.DOTALL)  # a contract's numbers are its own
_OTHERWISE = re.compile(
    r"```.*?```|`[^`\n]*`|\[[^\]]*\]\([^)]*\)|^#.*$"  # code, links, headings
    r"|sittings,\s+of\s+[\d,\s]+and\s+\d+|\b\d+\s+minutes\b|\blines?\s+\d+(?:(?:,\s+|\s+and\s+)\d+)*|\blesson\s+\d+"
    r"|\bPyTorch\s+\d\.\d+|\b(?:19|20)\d\d\b|(?<=[+*·=])\s*\d+\s*(?=[+*·=])|\d+(?=\s*[+*·]\s*\d)",  # terms of a sum
    re.MULTILINE | re.DOTALL,
)
_NOW_CHANGE = re.compile(r"\W*Now change this\b")  # says what is seen after the change


def numbers(notebook: Notebook) -> Iterator[Problem]:
    """A number of two digits or more is in the code or the output of a cell near it, as exact as it is told."""
    for at, cell in enumerate(notebook.cells):
        if cell.kind != "markdown" or cell.is_written or _NOW_CHANGE.match(cell.source):
            continue
        told = [n.replace(",", "") for n in _NUMBER.findall(_OTHERWISE.sub(" ", _EXERCISE.sub("", cell.source)))]
        told = [number for number in told if len(number.replace(".", "")) > 1]
        shown = {number for near in notebook.cells[max(0, at - WITHIN) : at + WITHIN + 1] for number in _shown(near)}
        for number in dict.fromkeys(told):
            if not any(_rounds_to(other, number) for other in shown):
                what = f"No cell near it shows {number}."
                yield notebook.problem("number", what, "print it, mend it, or say it without a number.", cell)


def _shown(cell: Cell) -> list[str]:
    if cell.kind != "code":
        return []
    return _SHOWN.findall((cell.source + json.dumps(cell.outputs)).replace(",", ""))


def _rounds_to(shown: str, told: str) -> bool:
    digits = len(told.partition(".")[2])
    return shown == told or ("." in shown and abs(float(shown) - float(told)) <= 0.5 * 10**-digits)

"""The clinic's patients: training scripts with faults, each a module of its own. ``listing`` shows one, ``mended``
changes lines of it.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from course_utils.base import explain
from course_utils.clinic.scripts.first import sick_run as sick_run
from course_utils.clinic.scripts.second import second_run as second_run

_COLUMN = 94  # where the numbers stand: behind the longest line


def lines(script: Callable[..., Any]) -> list[str]:
    """The lines of the file that a script stands in, from its first class or function on."""
    text = inspect.getsource(sys.modules[script.__module__]).splitlines()
    first = next(number for number, line in enumerate(text) if line.startswith(("class ", "def ")))
    return text[first:]


def listing(script: Callable[..., Any]) -> str:
    """A script with the number of each line behind it, as a comment: it can be read, pasted and run.

    Args:
        script: a function of one of the modules here.
    """
    numbered = enumerate(lines(script), start=1)
    return "\n".join(f"{line:{_COLUMN}}# {number}" if line.strip() else "" for number, line in numbered)


def mended(script: Callable[..., Any], changes: Mapping[int, str]) -> Callable[..., Any]:
    """The script with other lines in the place of some of its own; the script itself stays as it is.

    Args:
        script: a function of one of the modules here.
        changes: by the line's number in ``listing``, what stands there instead. It is indented as the line was; several
            lines are written one below the other.

    Raises:
        ValueError: the script has no such line.
    """
    changed = lines(script)
    for number, text in changes.items():
        if not 1 <= number <= len(changed):
            raise ValueError(
                explain(f"The script has no line {number!r}.", f"1 to {len(changed)}, as print(listing(...)) shows.")
            )
        line = changed[number - 1]
        indent = line[: len(line) - len(line.lstrip())]
        changed[number - 1] = "\n".join(indent + part for part in text.splitlines())
    names = dict(vars(sys.modules[script.__module__]))
    exec(compile("\n".join(changed), f"<{script.__name__}, mended>", "exec"), names)
    return names[script.__name__]


def second_causes() -> dict[str, int]:
    """The lines behind the second script: what grows in training, what in evaluation, what is not kept."""
    text = [line.strip() for line in lines(second_run)]
    found = {
        "training": "self.spread.append(self.features.std(dim=0).mean())",
        "evaluation": 'total += F.cross_entropy(self.model(images), labels, reduction="sum")',
        "best": "self.best = self.model.state_dict()",
    }
    return {fault: text.index(line) + 1 for fault, line in found.items()}

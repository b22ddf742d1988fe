"""The releases of PyTorch that the course runs on, and how their messages differ (``RELEASES``, ``stable``).

What a release may rename is asked of the running PyTorch (``node.name()``, a function's schema). What it says in other
words than its neighbours stands here, in one table. Private names that the course leans on stand in
``course_utils/base/torch_private.py``. Every night the course is run on each release.
"""

import re
import sys
from importlib import metadata

RELEASES = ("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")  # the last of each that the course was tried on

# How one release says what others say otherwise, and what a lesson shows in its place: the part that all of them say.
_WORDINGS = (
    # Before 2.13: "output 0 of ExpBackward0"; since then "output 0 of Exp".
    (re.compile(r"\b(\w+?)Backward\d*\b(?=,| is a view)"), r"\1"),
    # Before 2.15 there is no operation before the shapes.
    (re.compile(r"\b(?:addmm|mm|linear): (?=mat1 and mat2 shapes)"), ""),
    # Before 2.13 the tensor has no number.
    (re.compile(r"One of the differentiated Tensors appears"), "The differentiated Tensor at index 0 appears"),
    # Python's own words, since 3.13.
    (re.compile(r"(max|min)\(\) iterable argument is empty"), r"\1() arg is an empty sequence"),
)


def stable(message: str) -> str:
    """A message of PyTorch in the words that are the same in every release of ``RELEASES``."""
    for other, ours in _WORDINGS:
        message = other.sub(ours, message)
    return message


def running() -> str:
    """The version of PyTorch that is loaded, or that would be."""
    torch = sys.modules.get("torch")
    return torch.__version__ if torch else metadata.version("torch")


def tried() -> str:
    """The releases as a reader is told of them: "2.10 to 2.15"."""
    oldest, newest = (".".join(release.split(".")[:2]) for release in (RELEASES[0], RELEASES[-1]))
    return f"{oldest} to {newest}"


def note() -> str:
    """What to know of a PyTorch that is newer than all of ``RELEASES``, in one sentence; empty for these."""
    if _numbers(running()) <= _numbers(RELEASES[-1]):
        return ""
    return f"The course was tried on PyTorch {tried()}, and not yet on {running()}."


def refuse_older() -> None:
    """Refuses a PyTorch that is older than all of ``RELEASES``; says nothing otherwise, as a graded cell has to."""
    if _numbers(running()) < _numbers(RELEASES[0]):
        oldest = ".".join(RELEASES[0].split(".")[:2])
        raise ImportError(
            f"This course needs PyTorch {oldest} or newer, and found {running()}. "
            "Set the course up as its README says, or run: pip install --upgrade torch"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


refuse_older()

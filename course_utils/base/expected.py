"""Shows errors and warnings that a lesson expects, in a form that is the same in every run (``expect_error``,
``show_warnings``).
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from course_utils.base import explain
from course_utils.base.versions import stable


@contextmanager
def expect_error(phrase: str) -> Iterator[None]:
    """Runs a block that must raise, and prints the error's type and its first sentence: what one would search for.

    Where the phrase stands further on, that sentence is printed below the first.

    Args:
        phrase: a part of the message, compared without regard to case.

    Yields:
        Nothing. What the block raises is caught, and printed on stdout; ``KeyboardInterrupt`` and ``SystemExit`` pass.

    Raises:
        AssertionError: nothing was raised, or an error whose message has no such phrase (its ``__cause__``).
    """
    phrase = stable(phrase).rstrip(".:")  # as sentences are shown
    try:
        yield
    except Exception as error:
        if phrase.casefold() not in stable(str(error)).casefold():
            raise AssertionError(
                explain(f"The block raised {type(error).__name__}: {error}", f"a message with {phrase!r}.")
            ) from error
        first, *others = sentences(error)
        print(f"{type(error).__name__}: {first}")
        if phrase.casefold() not in first.casefold():
            print("... " + next((other for other in others if phrase.casefold() in other.casefold()), phrase))
    else:
        raise AssertionError(explain("The block ended without an error.", f"an error that says {phrase!r}."))


@contextmanager
def show_warnings() -> Iterator[None]:
    """Runs a block and prints each warning's category and first sentence on stdout, instead of sending it to stderr.

    What Python shows once for each line is shown each time; what PyTorch's C++ code says once a process is not said
    again. A block without a warning prints "no warning"; one that raises prints nothing, and its error passes.

    Yields:
        Nothing.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        print(f"{warning.category.__name__}: {sentences(warning.message)[0]}")
    if not caught:
        print("no warning")


def without_addresses(text: str) -> str:
    """The text without addresses in memory, which differ from run to run."""
    return re.sub(r"0x[0-9a-f]+", "0x…", text)


def sentences(message: object) -> list[str]:
    """The sentences of a message, each on one line, in the words that every release of PyTorch has for it.

    Addresses in memory are left out: they differ from run to run.
    """
    text = stable(without_addresses(str(message)))
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n", text)
    return [" ".join(part.split()).rstrip(".:") for part in parts if part.strip()] or [""]

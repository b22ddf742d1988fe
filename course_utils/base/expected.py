"""Shows errors and warnings that a lesson expects, in a form that is the same in every run (``expect_error``,
``show_warnings``).
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from course_utils.base.errors import explain


@contextmanager
def expect_error(phrase: str) -> Iterator[None]:
    """Runs a block that must raise, and prints the error's type and the phrase that matters.

    PyTorch's messages change between versions and hold addresses; the type and a key phrase do not.

    Args:
        phrase: a part of the message, compared without regard to case.

    Raises:
        AssertionError: nothing was raised, or something else.
    """
    try:
        yield
    except Exception as error:
        if phrase.casefold() not in str(error).casefold():
            raise AssertionError(
                explain(f"The block raised {type(error).__name__}: {error}", f"a message with {phrase!r}.")
            ) from error
        print(f"{type(error).__name__}: ... {phrase} ...")
    else:
        raise AssertionError(explain("The block ended without an error.", f"an error that says {phrase!r}."))


@contextmanager
def show_warnings() -> Iterator[None]:
    """Runs a block and prints each warning's category and first sentence instead of sending it to stderr.

    Warnings that PyTorch gives once a process are given each time.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        sentence = " ".join(str(warning.message).split()).split(". ")[0]
        print(f"{warning.category.__name__}: {sentence}")
    if not caught:
        print("no warning")

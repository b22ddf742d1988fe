"""Where the inputs of a check come from (``new_seed``): from nowhere that an answer could know."""

import secrets
from collections.abc import Callable

# Tests put a source of their own here, so that a test that fails can be run again as it was.
source: Callable[[int], int] = secrets.randbits


def new_seed() -> int:
    """A seed for inputs that have not been drawn before."""
    return source(62)

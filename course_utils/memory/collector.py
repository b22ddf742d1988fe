"""Python's garbage collector, out of the way of a measurement (``collector_off``)."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Switches Python's garbage collector off for a block: what is given back there is what the program lets go."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

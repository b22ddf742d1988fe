"""The bytes that a training script holds from batch to batch (``bytes_over_batches``)."""

import contextlib
import copy
from collections.abc import Callable
from typing import Any

from course_utils.base.errors import explain
from course_utils.clinic.dataset import ClinicDataset
from course_utils.memory import MemoryTracker
from course_utils.memory.loops import collector_off


def bytes_over_batches(
    script: Callable[..., Any],
    dataset: ClinicDataset,
    epochs: int = 1,
    seed: int = 0,
    part: str = "both",
    *,
    collect: bool = False,
) -> list[int]:
    """Bytes that a script holds each time it asks for a batch, above those before it began.

    Args:
        script: called as ``script(dataset, epochs, seed)``.
        dataset: what it is given.
        epochs: likewise.
        seed: likewise.
        part: "train" or "test" to note the requests for these batches alone; "both" for all.
        collect: whether Python's garbage collector stays on. Without it the numbers are the same in every run, and
            only what the script itself lets go is given back.

    Returns:
        One number for each batch, in order; [0] where the script asks for none.

    Raises:
        ValueError: ``part`` is none of these.
    """
    if part not in ("both", "train", "test"):
        raise ValueError(explain(f"bytes_over_batches(part={part!r}).", "one of: both, train, test."))
    held: list[int] = []
    watched = copy.copy(dataset)
    with contextlib.nullcontext() if collect else collector_off(), MemoryTracker(dataset._images) as mem:
        for name in ("train", "test"):
            if part in (name, "both"):
                batches = copy.copy(getattr(dataset, name))
                batches._asked = lambda: held.append(mem.current)
                setattr(watched, name, batches)
        script(watched, epochs, seed)
    return held or [0]

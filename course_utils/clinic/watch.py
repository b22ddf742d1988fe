"""The bytes that a training script holds from batch to batch (``bytes_over_batches``)."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from course_utils.base.errors import explain
from course_utils.clinic.dataset import Batches, ClinicDataset
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

        def note() -> None:
            held.append(mem.current)

        for name in ("train", "test"):
            if part in (name, "both"):
                setattr(watched, name, _Asked(getattr(dataset, name), note))
        script(watched, epochs, seed)
    return held or [0]


class _Asked:
    """Batches that call a function each time one is asked for."""

    def __init__(self, batches: Batches, asked: Callable[[], None]) -> None:
        self._batches, self._asked = batches, asked
        self.rows = batches.rows

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self._batches:
            self._asked()
            yield batch

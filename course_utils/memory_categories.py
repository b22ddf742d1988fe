"""What a storage was for (``categorise``), from its life and from what a tracker noted on the way (``Marks``).

Imports ``memory_records``' names of the categories and nothing else of the course.
"""

from collections.abc import Iterable

import torch

from course_utils.memory_dispatch import Block, DispatchRecorder
from course_utils.memory_known import Known


class Marks:
    """Numbers of the storages found in a named place at the end of a phase or of the block."""

    def __init__(self) -> None:
        self.parameters: set[int] = set()
        self.gradients: set[int] = set()
        self.optimizer_state: set[int] = set()
        self.saved: set[int] = set()

    def note(self, known: Known, recorder: DispatchRecorder, last: bool = False) -> None:
        """Looks where the known objects keep their memory now."""
        self.parameters |= _numbers(known.parameters(), recorder)
        self.gradients |= _numbers(known.gradients(), recorder)
        self.optimizer_state |= _numbers(known.optimizer_state(), recorder)


def _numbers(tensors: Iterable[torch.Tensor], recorder: DispatchRecorder) -> set[int]:
    found = set()
    for tensor in tensors:
        if tensor.layout is torch.strided:
            block = recorder.block(tensor.untyped_storage())
            if block is not None:
                found.add(block.number)
    return found


def categorise(blocks: Iterable[Block], marks: Marks) -> dict[int, str]:
    """The category of each storage by its number; "older" for those that existed before the start."""
    return {block.number: _category(block, marks) for block in blocks}


def _category(block: Block, marks: Marks) -> str:
    if block.is_old:
        return "older"
    if block.number in marks.parameters:
        return "parameters"
    if block.number in marks.optimizer_state:
        return "optimizer state"
    if block.number in marks.gradients:
        return "gradients"
    if block.number in marks.saved:
        return "saved for backward"
    if block.died >= 0 and block.died_task >= 0 and block.died_task != block.backward_task:
        return "saved for backward"
    if block.backward_task >= 0 and (block.died < 0 or block.died_task != block.backward_task):
        return "gradients"
    return "temporary" if block.died >= 0 else "other"

"""Reading saved tensors where PyTorch does not offer ``SavedTensor.data`` (2.9): ``is_packed`` and ``unpacked``.

There a slot can only be unpacked, and that runs the hooks of a slot that was packed by them. So packed slots have to be
told apart first: by the pointer to their hooks, whose place in the C++ object is found on slots that are known.
"""

import ctypes
import functools
from typing import Any

import torch

from course_utils.graph.references import probing_alone

_WORD = ctypes.sizeof(ctypes.c_void_p)
# The first words of a SavedVariable, which all have: the tensor, its forward gradient, counters, flags, then the hooks.
# https://github.com/pytorch/pytorch/blob/v2.9.1/torch/csrc/autograd/saved_variable.h#L60
_WORDS = range(4, 9)


def is_packed(raw: Any) -> bool:
    """Whether a slot was packed by hooks, so that reading it would run them; True where that cannot be told."""
    word = _word_of_hooks()
    return word is None or _word(raw, word) != 0


def unpacked(node: Any, name: str) -> tuple[Any, bool]:
    """What is in a slot that is not packed, and whether it is a copy made for the reader, that shares its storage.

    Args:
        node: the node.
        name: the attribute to read: ``_saved_self``, ``saved_tensors``.

    Raises:
        RuntimeError: backward has freed it, or it was changed in place.
    """
    value, again = getattr(node, name), getattr(node, name)
    return value, isinstance(value, torch.Tensor) and value is not again


def _word(raw: Any, position: int) -> int:
    start = ctypes.c_void_p.from_address(id(raw) + object.__basicsize__).value
    return ctypes.c_size_t.from_address((start or 0) + position * _WORD).value if start else 0


@functools.cache
def _word_of_hooks() -> int | None:
    """The position of the pointer to the hooks in a SavedVariable: empty without hooks, filled with any."""
    with probing_alone():
        leaf = torch.zeros(1, requires_grad=True, device="cpu", dtype=torch.float32)
        kinds = (
            lambda: leaf.sin(),
            lambda: leaf.exp(),
            lambda: (leaf * 1).sin(),
        )  # a leaf, an output, something between
        plain = [kind().grad_fn for kind in kinds]
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: 0, lambda packed: leaf):
            packed = [kind().grad_fn for kind in kinds]
    for position in _WORDS:
        empty = all(_word(_first(node), position) == 0 for node in plain)
        if empty and all(_word(_first(node), position) != 0 for node in packed):
            return position
    return None


def _first(node: Any) -> Any:
    return getattr(node, "_raw_saved_self", None) or node._raw_saved_result

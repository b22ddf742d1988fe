"""The memory a tensor stands on: the storages behind it, each once (``storages_of``), and the tensors inside it
(``inner_tensors``).

A dense tensor has one storage, which its views share. A sparse tensor, a wrapper subclass and a tensor inside
``torch.func`` have none of their own: the tensors inside them have.
"""

from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes

_COMPRESSED_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)
_COMPRESSED_BY_COLUMN = (torch.sparse_csc, torch.sparse_bsc)


def inner_tensors(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors a tensor is made of, () for one that has a storage of its own.

    Args:
        tensor: any tensor: sparse (COO, CSR, CSC, BSR, BSC), a wrapper subclass with ``__tensor_flatten__``, a batched
            or gradient-tracking tensor inside ``torch.func``, or an ordinary one.
    """
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return (torch._C._functorch.get_unwrapped(tensor),)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return tuple(getattr(tensor, name) for name in names)
    layout = tensor.layout
    if layout is torch.strided:
        return ()
    # These are operations: they must neither be recorded in a graph nor seen by a tracker.
    with torch.no_grad(), _disable_current_modes():
        if layout is torch.sparse_coo:
            return tensor._indices(), tensor._values()
        if layout in _COMPRESSED_BY_ROW:
            return tensor.crow_indices(), tensor.col_indices(), tensor.values()
        if layout in _COMPRESSED_BY_COLUMN:
            return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return ()


def storages_of(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """The storages a tensor stands on, of the tensors inside it where it has none of its own.

    A tensor whose memory PyTorch does not show (oneDNN's opaque layout) or that has none (a zero tensor made by
    forward-mode differentiation) yields nothing.
    """
    inside = inner_tensors(tensor)
    if inside:
        for inner in inside:
            yield from storages_of(inner)
        return
    if tensor._is_zerotensor():
        return
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # opaque: PyTorch raises one or the other by layout
        return
    yield storage

"""Whether a tensor's memory was read, by whatever means (``Page``)."""

import ctypes
import mmap
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

_LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


class Page:
    """A small tensor on a page of memory of its own, and whether the ``with`` block reads it: any thread, any library.

    On entry the system takes the page away, and brings one full of zeros once the tensor is read. Linux alone:
    elsewhere, and where the system does not tell, nothing is ever seen to be read.

    Args:
        values: what is copied, at most a page of it (4096 bytes).

    Attributes:
        tensor: the copy; on Linux zeros from the first ``with`` on.
        was_read: whether the last ``with`` block read it.
    """

    def __init__(self, values: Tensor) -> None:
        self.was_read, self._tells = False, False
        if _LIBC is None:
            self.tensor = values.clone()
            return
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page = torch.frombuffer(self._memory, dtype=values.dtype)
        self.tensor = page[: values.numel()].view(values.shape).copy_(values)
        self._address = ctypes.c_void_p(page.data_ptr())

    @classmethod
    def under(cls, module: nn.Module) -> "Page":
        """The page on which all parameters of a small module lie from now on, each one full of zeros."""
        first, *_ = parameters = list(module.parameters())
        page = cls(torch.zeros(sum(parameter.numel() for parameter in parameters), dtype=first.dtype))
        vector_to_parameters(page.tensor, parameters)
        return page

    def __enter__(self) -> None:
        if _LIBC is not None:
            self._memory.madvise(mmap.MADV_DONTNEED)
            self._tells = not self._is_there()  # what stands in for Linux may say of every page that it is there

    def __exit__(self, *_: object) -> None:
        self.was_read = self._tells and self._is_there()

    def _is_there(self) -> bool:
        told = ctypes.c_ubyte(1)
        _LIBC.mincore(self._address, ctypes.c_size_t(1), ctypes.byref(told))
        return bool(told.value & 1)

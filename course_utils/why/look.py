"""What a watch makes of a function (``plan_of``), and what a tensor holds (``kind_of_bad``, ``range_of``)."""

import math
from collections.abc import Iterator
from typing import Any

import torch

PASS, OPERATION, NUMBER, SET, SWITCH, BACKWARD, MAKER = range(7)
_NUMBERS = {"item", "tolist", "numpy", "__float__", "__int__", "__array__"}
_MAKERS = {"tensor", "as_tensor", "from_numpy", "asarray", "FloatTensor", "DoubleTensor"}
_SKIPPED = {
    "dim", "size", "numel", "stride", "is_floating_point", "is_complex", "is_contiguous", "data_ptr", "__repr__",
    "__len__", "__bool__", "__hash__", "__format__", "requires_grad_", "retain_grad", "register_hook", "element_size",
    "ndimension", "storage_offset", "untyped_storage", "__deepcopy__", "is_same_size", "storage", "get_device",
}  # fmt: skip
_READ = {"data", "T", "mT", "H", "mH", "real", "imag"}


def plan_of(func: Any) -> tuple[int, str]:
    """What is done about a function, and what it is called."""
    name = getattr(func, "__name__", str(func))
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__", "__delete__"):
        member = getattr(owner, "__name__", "")
        if name == "__get__":
            return (OPERATION if member in _READ else PASS), member
        return SET, member
    if name == "_set_grad_enabled":
        return SWITCH, name
    if func is torch.autograd.grad or name == "backward":
        return BACKWARD, name
    if name in _NUMBERS:
        return NUMBER, name
    if name in _SKIPPED or name.startswith("_record_function"):
        return PASS, name
    return (MAKER if name in _MAKERS else OPERATION), name


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from tensors_in(value)


def version_of(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # made in inference mode
        return -1


def how_cut(name: str, kind: int, result: torch.Tensor) -> str:
    if name in ("detach", "data", "detach_"):
        return name.rstrip("_")
    if kind == MAKER:
        return "copy"
    return "operation" if result.is_floating_point() else "dtype"


def number_of(value: Any) -> object:
    """What a number or array is remembered by; the first of several."""
    return next(numbers_in(value), None)


def numbers_in(value: Any) -> Iterator[object]:
    if isinstance(value, float):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from numbers_in(item)
    elif hasattr(value, "__array_interface__"):
        yield "array", value.__array_interface__["data"][0]


def kind_of_bad(tensor: torch.Tensor) -> str:
    """ "nan", "inf", or "" where every number is finite. The sum tells most times; where it does not, all are asked."""
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return ""
    with torch.no_grad():
        if math.isfinite(tensor.sum().item()):
            return ""
        if tensor.isnan().any():
            return "nan"
        return "inf" if tensor.isinf().any() else ""


def range_of(tensor: torch.Tensor) -> str:
    """The least and the greatest number of a tensor, and how many are not finite, in words."""
    with torch.no_grad():
        flat = tensor.detach().flatten()
        if not flat.numel():
            return "empty"
        if not flat.is_floating_point():
            return f"{flat.min().item()} to {flat.max().item()}"
        finite = flat[flat.isfinite()]
        kinds = [word for word, some in (("NaN", flat.isnan()), ("inf", flat.isinf())) if some.any()]
        if not finite.numel():
            return f"all {' and '.join(kinds)}"
        more = f", with {' and '.join(kinds)}" if kinds else ""
        return f"{finite.min().item():.4g} to {finite.max().item():.4g}{more}"

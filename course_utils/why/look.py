"""What a tensor holds (``kind_of_bad``, ``range_of``)."""

import math
from collections.abc import Iterator
from typing import Any

import torch


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

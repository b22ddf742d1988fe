"""What a tensor holds (``kind_of_bad``, ``range_of``), and what operations are called (``spoken``)."""

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from course_utils.base.user_code import Site, is_user_file
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.report import operation_name

MOST_NODES = 30_000
"""Of a larger graph, no more is looked at while a program runs."""


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from tensors_in(value)


def leaves_behind(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The leaves that a tensor was computed from; itself, where it is one."""
    nodes = islice(nodes_behind(tensor), MOST_NODES)
    return [tensor] if tensor.is_leaf else [node.variable for node in nodes if hasattr(node, "variable")]


def line_of(function: Any) -> Site | None:
    """Where a function of the user's begins; None where it is not the user's."""
    code = getattr(function, "__code__", None)
    if code is None or not is_user_file(code.co_filename):
        return None
    site = Site(code.co_filename, code.co_firstlineno, code.co_qualname)
    while site.source.startswith("@"):  # a function begins at its decorators
        site = replace(site, line=site.line + 1)
    return site


def kind_of_bad(tensor: torch.Tensor) -> str:
    """ "nan", "inf", or "" where every number is finite. The sum tells most times; where it does not, all are asked."""
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return ""
    tensor = tensor.detach()
    if math.isfinite(tensor.sum().item()):
        return ""
    if tensor.isnan().any():
        return "nan"
    return "inf" if tensor.isinf().any() else ""


def range_of(tensor: torch.Tensor) -> str:
    """The least and the greatest number of a tensor, and how many are not finite, in words."""
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
    least, most = f"{finite.min().item():.4g}", f"{finite.max().item():.4g}"
    return f"{least} to {most}{more}" if least != most else f"{least}{more}"


_SPOKEN = {
    "addmm": "linear", "mm": "matmul", "bmm": "matmul", "mv": "matmul", "to_copy": "to", "convolution": "conv",
    "nll_loss_forward": "nll_loss", "linalg_vector_norm": "norm", "unsafe_view": "view", "reshape_alias": "reshape",
    "as_strided": "view", "t": "transpose", "copy_slices": "copy_", "threshold": "relu", "pow_tensor_scalar": "pow",
}  # fmt: skip
_PREFIX = re.compile(r"^_+|^(native|cudnn|fused|safe)_|_backward$")


@functools.lru_cache(maxsize=1024)
def spoken(name: str) -> str:
    """An operation as its user calls it: "nll_loss" for "NllLossBackward0", "to" for "_to_copy"."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation_name(name)).lower()
    while (plain := _PREFIX.sub("", snake)) != snake:
        snake = plain
    return _SPOKEN.get(snake, snake)


VIEWS = {
    "alias", "copy_", "detach", "diagonal", "expand", "permute", "reshape", "select", "slice", "split",
    "split_with_sizes", "squeeze", "transpose", "unbind", "unsqueeze", "view",
}  # fmt: skip
"""Operations whose result shares the memory of what they are given, as they are spoken; an edit of a part."""

"""Names for tensors, from the modules, mappings and keywords that hold them (``tensor_names``).

Imports ``course_utils.errors`` and ``text``.
"""

from collections.abc import Mapping
from typing import Any

import torch

from course_utils.errors import explain
from course_utils.text import describe


def tensor_names(*named: torch.nn.Module | Mapping[str, Any], **more: Any) -> dict[str, torch.Tensor]:
    """Tensors by name, as ``graph_memory(..., names=...)`` takes them.

    Args:
        named: modules (their parameters and buffers, by qualified name), and mappings of name to tensor or module.
        more: the same by keyword: ``tensor_names(w=w, net=net)``; a module's tensors then start with its name.

    Raises:
        TypeError: something is neither.

    Example:
        >>> w = torch.ones(2, requires_grad=True)
        >>> list(tensor_names(torch.nn.Linear(2, 1), w=w))
        ['weight', 'bias', 'w']
    """
    names: dict[str, torch.Tensor] = {}
    for source in (*named, more):
        if isinstance(source, torch.nn.Module):
            names.update(_tensors_of(source, ""))
        elif isinstance(source, Mapping):
            for name, value in source.items():
                names.update(_one_name(str(name), value))
        else:
            raise TypeError(
                explain(
                    f"Names were to be taken from {describe(source)}.",
                    "a module, or a dictionary of name and tensor.",
                    try_this='plot_graph(loss, model) or plot_graph(loss, {"w": w})',
                )
            )
    return names


def _one_name(name: str, value: object) -> dict[str, torch.Tensor]:
    if isinstance(value, torch.nn.Module):
        return _tensors_of(value, f"{name}.")
    if isinstance(value, torch.Tensor):
        return {name: value}
    raise TypeError(
        explain(f"The name {name!r} was given to {describe(value)}.", "a tensor or a module for each name.")
    )


def _tensors_of(module: torch.nn.Module, prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in (*module.named_parameters(), *module.named_buffers())}

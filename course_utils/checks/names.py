"""Names in torch that an answer might replace, and what they stood for (``Names``)."""

import builtins
import ctypes
import math
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

# Bound now, before any answer can replace them. All functions below look built-in names up in this copy.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python


def _watched() -> dict[str, Any]:
    """Namespaces whose names an answer might replace, by the name a learner knows them by."""
    modules = {
        "torch": torch,
        "torch.nn": nn,
        "torch.nn.functional": nn.functional,
        "torch.nn.utils": nn.utils,
        "torch.autograd": torch.autograd,
        "torch.autograd.graph": torch.autograd.graph,
        "torch.autograd.functional": torch.autograd.functional,
        "torch.func": torch.func,
        "torch.linalg": torch.linalg,
        "torch.optim": torch.optim,
        "torch.testing": torch.testing,
        "torch.utils.checkpoint": sys.modules.get("torch.utils.checkpoint"),
        "math": math,
        "builtins": builtins,
        "time": sys.modules["time"],
    }
    classes = {
        "torch.Tensor": torch.Tensor,
        "torch.nn.Module": nn.Module,
        "torch.nn.Parameter": nn.Parameter,
        "torch.nn.Linear": nn.Linear,
        "torch.nn.Sequential": nn.Sequential,
        "torch.autograd.Function": torch.autograd.Function,
        "torch.no_grad": torch.no_grad,
        "torch.enable_grad": torch.enable_grad,
    }
    return {name: space for name, space in (modules | classes).items() if space is not None}


# IPython and the kernel swap these themselves while a cell runs.
_NOT_WATCHED = {"input", "exit", "quit", "help", "display", "get_ipython"}
# ``torch._dynamo``, which the first optimizer loads, wraps this one.
_WRAPPED_BY_TORCH = {"manual_seed"}


class Names:
    """Which function, class or module each watched name of torch stood for.

    torch fills some modules on first use, so a *new* name in a module is no change; a new name in a class is one where
    it shadows an inherited method. Special methods are left out: notebooks' tools replace ``Tensor.__repr__``.
    """

    def __init__(self) -> None:
        self._spaces = {name: (space, vars(space).copy()) for name, space in _watched().items()}
        self._all = _all_in(space for space, _ in self._spaces.values())

    def changes(self) -> Iterator[tuple[str, Any, str, Any]]:
        """Yields (full name, namespace, name, the object it stood for, or ``...`` for a new name)."""
        if _all_in(space for space, _ in self._spaces.values()) == self._all:
            return  # by far the most frequent, and the loops below take ten times as long
        for label, (space, before) in self._spaces.items():
            now = vars(space)
            for name, value in before.items():
                replaced = now.get(name, ...) is not value
                if replaced and name in _WRAPPED_BY_TORCH and _wrapped_by_torch(now.get(name), value):
                    continue
                if replaced and callable(value) and not name.startswith("__") and name not in _NOT_WATCHED:
                    yield f"{label}.{name}", space, name, value
            if isinstance(space, type) and len(now) != len(before):
                for name in now.keys() - before.keys():
                    inherited = any(name in vars(base) for base in space.__mro__[1:])
                    if inherited and not name.startswith("__"):
                        yield f"{label}.{name}", space, name, ...

    def restore(self) -> list[tuple[str, Any, str, Any]]:
        """Puts every replaced name back.

        Returns:
            (full name, namespace, name, what was found in its place or ``...``) for each, in a form that ``put`` takes.
        """
        found = []
        for label, space, name, before in list(self.changes()):
            found.append((label, space, name, vars(space).get(name, ...)))
            put(space, name, before)
        return found


def _all_in(spaces: Iterable[Any]) -> tuple[list[str], bytes]:
    """All names in some namespaces, and the addresses of what they stand for: no object is asked if it equals another.

    A tuple is the addresses of its items, behind its head.
    """
    names, values = list[str](), list[Any]()
    for space in spaces:
        now = vars(space)
        names += now
        values += now.values()
    items = tuple(values)
    memory = ctypes.c_char * (len(items) * tuple.__itemsize__)
    return names, memory.from_address(id(items) + tuple.__basicsize__).raw


def _wrapped_by_torch(now: Any, before: Any) -> bool:
    """Whether torch itself put a wrapper round a function of its own."""
    if type(now) is not types.FunctionType:
        return False
    by_torch = now.__code__.co_filename.startswith(os.path.dirname(torch.__file__))
    return by_torch and vars(now).get("__wrapped__") is before


def put(space: Any, name: str, value: Any) -> None:
    """Sets a name in a namespace; ``...`` removes it."""
    if value is ...:
        delattr(space, name)
    else:
        setattr(space, name, value)

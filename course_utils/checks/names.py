"""Names in torch that an answer might replace, and what they stood for (``Names``)."""

import builtins
import ctypes
import math
import os
import time
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn

from course_utils.checks.hardened import __builtins__  # type: ignore[attr-defined, no-redef]  # noqa: F401  a copy


def _watched() -> dict[str, Any]:
    """Namespaces whose names an answer might replace, by the name a learner knows them by."""
    modules: dict[str, Any] = {
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
        "torch.utils.checkpoint": torch.utils.checkpoint,
        "math": math,
        "builtins": builtins,
        "time": time,
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
    return modules | classes


# IPython and the kernel swap these themselves while a cell runs, and so does a check.
_NOT_WATCHED = {"input", "exit", "quit", "help", "display", "get_ipython"}
# ``torch._dynamo``, which the first optimizer loads, wraps this one.
_WRAPPED_BY_TORCH = {"manual_seed"}


class Names:
    """Which function, class or module each watched name of torch stood for.

    torch fills some modules on first use, so a *new* name in a module is no change; a new name in a class is one where
    it shadows an inherited method. Special methods are left out: notebooks' tools replace ``Tensor.__repr__``.
    """

    def __init__(self) -> None:
        self._spaces = _watched()
        self._look({label: {} for label in self._spaces})

    def _look(self, known: dict[str, dict[str, Any]]) -> None:
        """Takes the picture of what is there now; of a name that is known, what it is known to stand for."""
        self._before: dict[str, dict[str, Any]] = {}
        for label, space in self._spaces.items():
            now = dict(_names_in(space))
            now |= {
                name: value for name, value in known[label].items() if _is_put_back(name, value, now.get(name, ...))
            }
            self._before[label] = now
        self._all = _all_in(self._before.values())

    def restore(self) -> list[tuple[str, Any, str, Any]]:
        """Puts every replaced name back. What else has changed since is torch's own doing, and stays.

        Returns:
            (full name, namespace, name, what was found in its place or ``...``) for each, in a form that ``put`` takes.
        """
        if _all_in(map(_names_in, self._spaces.values())) == self._all:
            return []  # by far the most frequent, and what is below takes twenty times as long
        found = []
        for label, space, name, before in list(self._changes()):
            found.append((label, space, name, vars(space).get(name, ...)))
            put(space, name, before)
        self._look(self._before)
        return found

    def _changes(self) -> Iterator[tuple[str, Any, str, Any]]:
        """Yields (full name, namespace, name, the object it stood for, or ``...`` for a new name)."""
        for label, space in self._spaces.items():
            before, now = self._before[label], _names_in(space)
            for name, value in before.items():
                if _is_put_back(name, value, now.get(name, ...)):
                    yield f"{label}.{name}", space, name, value
            if isinstance(space, type) and len(now) != len(before):
                for name in now.keys() - before.keys():
                    inherited = any(name in vars(base) for base in space.__mro__[1:])
                    if inherited and not name.startswith("__"):
                        yield f"{label}.{name}", space, name, ...


def _names_in(space: Any) -> Mapping[str, Any]:
    now = vars(space)
    return now if space is not builtins else {name: now[name] for name in now if name not in _NOT_WATCHED}


def _is_put_back(name: str, before: Any, now: Any) -> bool:
    """Whether a name stands for something else, and that is undone."""
    if now is before or (name in _WRAPPED_BY_TORCH and _wrapped_by_torch(now, before)):
        return False
    return callable(before) and not name.startswith("__")


def _all_in(spaces: Iterable[Mapping[str, Any]]) -> tuple[list[str], bytes]:
    """All names in some namespaces, and the addresses of what they stand for: no object is asked if it equals another.

    A tuple is the addresses of its items, behind its head.
    """
    names, values = list[str](), list[Any]()
    for space in spaces:
        names += space
        values += space.values()
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


# What torch's names stood for before any answer was run.
PRISTINE = Names()

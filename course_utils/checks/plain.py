"""Takes from tensors, modules and containers of an answer whatever could answer for them (``plain``, ``Classes``)."""

import types
from collections.abc import Callable, Iterable, Iterator
from inspect import getattr_static
from typing import Any

import torch

from course_utils.base.text import class_name
from course_utils.base.torch_private import DisableTorchFunctionSubclass, DispatchKey, dispatch_keys
from course_utils.checks.hardened import __builtins__  # type: ignore[attr-defined, no-redef]  # noqa: F401  a copy
from course_utils.checks.missed import Missed

_as_subclass = torch.Tensor.as_subclass


# What claims ask of tensors and modules. A `forward`, `train` or `eval` of its own is a module's own affair.
_ASKED_TENSORS = frozenset(dir(torch.Tensor))
_ASKED_MODULES = frozenset(
    name for name, value in vars(torch.nn.Module).items() if isinstance(value, types.FunctionType)
) - {"forward", "train", "eval", "extra_repr"}
_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_set_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose methods are torch's own: the same object, or a view of it without its subclass.

    Attributes of the object that stand before a method (``y.detach = ...``) are taken away.

    Raises:
        Missed: its class answers for its operations itself (``__torch_dispatch__``).
    """
    if _is_ordinary(type(tensor)):
        _take_away(tensor, _ASKED_TENSORS)
        return tensor
    if dispatch_keys(tensor).has(DispatchKey.Python):
        raise Missed(expected="an ordinary tensor", got=f"an instance of {class_name(tensor)}")
    with DisableTorchFunctionSubclass():
        return _as_subclass(tensor, torch.Tensor)


def _is_ordinary(kind: type) -> bool:
    return kind is torch.Tensor or kind is torch.nn.Parameter  # not `in`: a metaclass could say that they are equal


def _take_away(part: torch.Tensor | torch.nn.Module, asked: frozenset[str]) -> None:
    own = vars(part)
    kept = {name: value for name, value in dict.items(own) if type(name) is str and name not in asked}
    if len(kept) < dict.__len__(own):
        dict.clear(own)
        dict.update(own, kept)


class Classes:
    """Sees to it that the tensors and modules which an answer is given come back with torch's methods."""

    def __init__(self, given: Iterable[Any]) -> None:
        self._given = tuple(given)
        self._kinds = [(part, type(part)) for part in _parts(self._given)]

    def restore(self) -> None:
        """Puts back classes that were exchanged for some with other methods, and takes away what stands before them.

        Raises:
            Missed: there is a new tensor inside (a gradient, a parameter) that is no ordinary one.
        """
        for part, kind in self._kinds:
            if type(part) is not kind and _differ(type(part), kind, _asked(part)):
                _set_class(part, kind)
        given = {id(part): kind for part, kind in self._kinds}
        for part in _parts(self._given):
            kind = type(part)
            if issubclass(kind, torch.Tensor) and not _is_ordinary(kind) and kind is not given.get(id(part)):
                raise Missed(expected="ordinary tensors", got=f"an instance of {class_name(part)}")
            _take_away(part, _asked(part))


def _asked(part: Any) -> frozenset[str]:
    return _ASKED_TENSORS if issubclass(type(part), torch.Tensor) else _ASKED_MODULES


def _differ(kind: type, other: type, names: Iterable[str]) -> bool:
    # No metaclass is asked.
    return any(getattr_static(kind, name, None) is not getattr_static(other, name, None) for name in names)


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    """The tensors, gradients and modules in some values, without asking a module for them."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            yield value
            if value.is_leaf or value.retains_grad:
                waiting.append(value.grad)
        elif issubclass(kind, torch.nn.Module):
            yield value
            own = vars(value)
            waiting.extend((*own["_parameters"].values(), *own["_buffers"].values(), *own["_modules"].values()))
        elif issubclass(kind, dict):
            waiting.extend(dict.values(value))
        elif issubclass(kind, list):
            waiting.extend(list.__iter__(value))
        elif issubclass(kind, tuple):
            waiting.extend(tuple.__iter__(value))

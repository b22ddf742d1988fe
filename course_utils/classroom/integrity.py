"""What everything that judges stood for before a student's code ran, and putting it back (``Picture``).

A picture is taken once, in the warm interpreter. It goes through modules, functions, classes and the plain containers
and objects of this package that they hold, and keeps who held what. ``restore`` finds what differs, puts it back and
says so. Where nothing differs, which is nearly always, that is seen from bytes alone (``images``). Imports images;
nothing in it calls a name that a student could have replaced.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from course_utils.classroom import images

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

KERNEL = "torch's own operation "  # how what cannot be put back begins
_FUNCTION_FIELDS = ("__code__", "__defaults__", "__kwdefaults__")
_FIELD_GETTERS = tuple(operator.attrgetter(field) for field in _FUNCTION_FIELDS)
_MISSING = object()
_TORCH = os.path.dirname(torch.__file__) + os.sep
_is = operator.is_

# IPython, the runner and torch itself set these while cells run.
_MAY_CHANGE = frozenset(
    {
        *("sys." + name for name in ("stdout", "stderr", "displayhook", "last_exc", "last_type", "last_value")),
        *("sys." + name for name in ("last_traceback", "path_importer_cache", "ps1", "ps2", "ps3", "exc_info")),
        "torch.Storage",  # follows the default dtype
        *("builtins." + name for name in ("_", "__", "___", "exit", "quit", "display", "get_ipython")),
        # A fork sets these anew, and so does every thread.
        *("threading." + name for name in ("_active_limbo_lock", "_shutdown_locks", "_shutdown_locks_lock", "_active")),
        *("threading." + name for name in ("_main_thread", "_limbo", "_dangling")),
    }
)
_SYS_NAMES = ("modules", "meta_path", "path_hooks", "path", "excepthook", "unraisablehook", "exit", "intern")


_Space = tuple[str, Any, dict[Any, Any], Any, tuple[list[Any], list[Any]]]


class Picture:
    """Who held what, when it was taken.

    Args:
        modules: those whose names must stay; their functions and classes are looked into.
        deep: the prefix of the packages that are looked into as far as they go: their containers and objects too.
        lists: lists and dicts that must hold what they hold and nothing more, by the name that a report should use.
    """

    def __init__(
        self, modules: dict[str, types.ModuleType], deep: str, lists: dict[str, list[Any] | dict[Any, Any]]
    ) -> None:
        self._deep = deep
        # Label, dict, copy, owner of a read-only one, and its keys and values in order.
        self._dicts: list[_Space] = []
        self._lists: list[tuple[str, list[Any], list[Any]]] = []
        self._functions: list[tuple[str, types.FunctionType, tuple[Any, ...]]] = []
        self._cells: list[tuple[str, types.CellType, Any]] = []
        self._sets: list[tuple[str, set[Any], set[Any]]] = []
        self._seen: set[int] = set()
        self._keep: list[Any] = []  # so that no id is used again
        for name, module in modules.items():
            self._module(name, module)
        self._exact = [
            (label, held, dict(held) if isinstance(held, dict) else list(held)) for label, held in lists.items()
        ]
        self._bare = [function for _, function, _ in self._functions]
        self._fields = [list(map(get, self._bare)) for get in _FIELD_GETTERS]
        # Those that code which judges may import while it runs.
        self._imported = {name: sys.modules[name] for name in modules if name in sys.modules}
        self._kernels_before = self._kernels()
        self._modules_differ = True
        self._images = self._seen_as_bytes() if images.work() else None
        self._sys = {name: getattr(sys, name) for name in _SYS_NAMES}

    # Taking it.

    def _first_time(self, value: Any) -> bool:
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        self._keep.append(value)
        return True

    def _module(self, name: str, module: types.ModuleType) -> None:
        if not self._first_time(module):
            return
        space = vars(module)
        self._dicts.append((name, space, dict(space), None, (list(space), list(space.values()))))
        deep = name == self._deep or name.startswith(self._deep + ".")
        for key, value in list(space.items()):
            if not key.startswith("__"):
                self._value(f"{name}.{key}", value, deep)

    def _value(self, label: str, value: Any, deep: bool) -> None:
        if isinstance(value, types.FunctionType):
            self._function(label, value, deep)
        elif isinstance(value, type):
            module = getattr(value, "__module__", "")
            if isinstance(module, str) and (deep or module.partition(".")[0] == "torch"):
                self._class(label, value, deep and self._is_deep(module))
        elif isinstance(value, (staticmethod, classmethod)):
            self._value(label, value.__func__, deep)
        elif isinstance(value, property):
            for accessor in (value.fget, value.fset, value.fdel):
                self._value(label, accessor, deep)
        elif deep and type(value) in (dict, list, tuple, set):
            self._container(label, value, follow=True)
        elif deep and self._is_deep(type(value).__module__):
            self._object(label, value)

    def _is_deep(self, module: Any) -> bool:
        return isinstance(module, str) and (module == self._deep or module.startswith(self._deep + "."))

    def _function(self, label: str, function: types.FunctionType, deep: bool) -> None:
        if not self._first_time(function):
            return
        self._functions.append((label, function, tuple(getattr(function, field) for field in _FUNCTION_FIELDS)))
        if not (deep and self._is_deep(function.__module__)):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # still empty
                continue
            self._cells.append((f"{label}'s {name}", cell, content))
            self._value(f"{label}'s {name}", content, deep)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._value(label, value, deep)
        wrapped = vars(function).get("__wrapped__")
        if wrapped is not None:
            self._value(label, wrapped, deep)

    def _class(self, label: str, owner: type, deep: bool) -> None:
        if not self._first_time(owner):
            return
        space = vars(owner)
        self._dicts.append((label, space, dict(space), owner, (list(space), list(space.values()))))
        for key, value in list(space.items()):
            self._value(f"{label}.{key}", value, deep)

    def _container(self, label: str, value: Any, follow: bool) -> None:
        if not self._first_time(value):
            return
        if type(value) is dict:
            self._dicts.append((label, value, dict(value), None, (list(value), list(value.values()))))
            items = list(value.values())
        elif type(value) is list:
            self._lists.append((label, value, list(value)))
            items = list(value)
        elif type(value) is set:
            self._sets.append((label, value, set(value)))
            return
        else:
            items = list(value)
        if follow:
            for item in items:
                self._value(label, item, True)

    def _object(self, label: str, value: Any) -> None:
        space = getattr(value, "__dict__", None)
        if type(space) is dict and self._first_time(value):
            if not images.has_own_table(space):
                # Objects of one class share a table; with one of its own, a change can be seen from outside.
                space = {**space}
                object.__setattr__(value, "__dict__", space)
            self._container(label, space, follow=True)

    def _seen_as_bytes(self) -> images.Images | None:
        # A dict whose values lie in its object has no table of its own: it is compared the slow way.
        self._quick: list[_Space] = []
        self._slow: list[_Space] = []
        for item in self._dicts:
            (self._quick if images.has_own_table(item[1]) else self._slow).append(item)
        spaces = [item[1] for item in self._quick]
        try:
            return images.Images([*spaces, sys.modules], self._bare, [cell for _, cell, _ in self._cells])
        except TypeError:
            return None

    @staticmethod
    def _kernels() -> frozenset[str]:
        """Implementations that were registered from Python for operations of torch itself. They cannot be put back."""
        registered = getattr(torch.library, "_impls", ())
        return frozenset(name for name in registered if type(name) is str and name.startswith("aten/"))

    # Comparing.

    def restore(self) -> list[str]:
        """Puts back what differs.

        Returns:
            The names of what had been changed, sorted, each once.
        """
        suspects = self._suspects()
        changed = set(self._restore_sys())
        changed.update(f"{KERNEL}{name}" for name in self._kernels() - self._kernels_before)
        for label, space, before, owner, order in suspects:
            if not _is_as_it_was(space, *order):
                changed.update(self._restore_dict(label, space, before, owner))
        for label, held, kept in self._exact:
            if not _holds_the_same(held, kept):
                _refill(held, kept)
                changed.add(label)
        for label, items, listed in self._lists:
            if not _holds_the_same(items, listed):
                items[:] = listed
                changed.add(label)
        for label, members, collected in self._sets:
            if members != collected:
                members.clear()
                members.update(collected)
                changed.add(label)
        for label, function, fields in self._functions if self._functions_differ() else ():
            for field, value in zip(_FUNCTION_FIELDS, fields, strict=True):
                if getattr(function, field) is not value:
                    setattr(function, field, value)
                    changed.add(label)
        for label, cell, content in self._cells if self._cells_differ() else ():
            if cell.cell_contents is not content:
                cell.cell_contents = content
                changed.add(label)
        return sorted(changed)

    def _suspects(self) -> list[_Space]:
        if self._images is None:
            return self._dicts
        changed = self._images.changed_spaces()
        self._modules_differ = len(self._quick) in changed
        return [*self._slow, *(self._quick[place] for place in changed if place < len(self._quick))]

    def _cells_differ(self) -> bool:
        return self._images is None or not self._images.cells_as_they_were()

    def _functions_differ(self) -> bool:
        if self._images is not None and self._images.functions_as_they_were():
            return False
        pairs = zip(_FIELD_GETTERS, self._fields, strict=True)
        return not all(all(map(_is, map(get, self._bare), before)) for get, before in pairs)

    def _restore_dict(self, label: str, space: Any, before: dict[Any, Any], owner: type | None) -> Iterator[str]:
        mine = owner is None or self._is_deep(getattr(owner, "__module__", ""))
        for key, value in before.items():
            now = space.get(key, _MISSING)
            if now is value or _is_torch_s_own(now, value):
                continue
            if not (mine and label.startswith(self._deep)) and not _can_be_called(value):
                continue  # a counter or a flag that torch or the library keeps for itself
            if owner is not None:
                type.__setattr__(owner, key, value)
            else:
                space[key] = value
            if f"{label}.{key}" not in _MAY_CHANGE and not (isinstance(key, str) and _is_noise(key)):
                yield f"{label}.{key}"
        for key in [key for key in space if key not in before]:
            # A module fills up on first use; in a class a new name can stand before an inherited one.
            if owner is not None and any(key in vars(base) for base in owner.__mro__[1:]):
                type.__delattr__(owner, key)
                yield f"{label}.{key}"

    def _restore_sys(self) -> Iterator[str]:
        for name, value in self._sys.items():
            if getattr(sys, name, None) is not value:
                setattr(sys, name, value)
                yield f"sys.{name}"
        for name, module in self._imported.items() if self._modules_differ else ():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                yield f"sys.modules[{name!r}]"


def _can_be_called(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod, property, types.ModuleType))


def _is_torch_s_own(now: Any, before: Any) -> bool:
    """Whether torch put a wrapper of its own round a function, as its optimizers and its compiler do."""
    code = getattr(now, "__code__", None)
    if not isinstance(code, types.CodeType) or not code.co_filename.startswith(_TORCH):
        return False
    return vars(now).get("__wrapped__") is before


def _holds_the_same(held: Any, kept: Any) -> bool:
    if len(held) != len(kept):
        return False
    if isinstance(kept, dict):
        return all(held.get(key, _MISSING) is value for key, value in kept.items())
    return all(map(_is, held, kept))


def _refill(held: Any, kept: Any) -> None:
    held.clear()
    if isinstance(kept, dict):
        held.update(kept)
    else:
        held.extend(kept)


def _is_as_it_was(space: Any, keys: list[Any], values: list[Any]) -> bool:
    # Never `==` on the values: one of a student's own could say that it equals anything.
    return list(space) == keys and all(map(_is, space.values(), values))


def _is_noise(key: str) -> bool:
    return key in ("__warningregistry__", "__builtins__", "__annotations_cache__", "__path__")

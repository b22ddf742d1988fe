"""What names stood for before a student's code ran, and putting them back (``picture_of``).

The names of everything that judges: of modules, and of the classes that they hold. A picture is taken once, in the warm
interpreter. What it returns finds what differs, puts it back and says so. There is no class here that a student's code
could find among all classes, and nothing calls a name that it could have replaced.
"""

from __future__ import annotations

import builtins
import copyreg
import operator
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

# Of torch.FloatTensor and its like: no tensor is of such a class, and each repeats all names of torch.Tensor.
_LEGACY = type(torch.FloatTensor)
_MISSING = object()
_TORCH = os.path.dirname(torch.__file__) + os.sep
_is = operator.is_
_BUILTIN_NAMES = frozenset(vars(builtins))  # which a module that is given one of them sees in place of Python's own

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
        # How things are shown decides nothing.
        *("torch.Tensor." + name for name in ("__repr__", "__str__", "__format__")),
        *("warnings." + name for name in ("formatwarning", "showwarning", "filters", "_showwarnmsg_impl")),
    }
)
_NOISE = frozenset({"__warningregistry__", "__builtins__", "__annotations_cache__", "__path__"})
# Where modules are looked for: a student's own places come after the genuine ones.
_SEARCHED = ("path", "meta_path", "path_hooks")
_SYS_NAMES = (
    *("modules", "excepthook", "unraisablehook", "exit", "intern"),
    *("_getframe", "_current_frames", "settrace", "setprofile"),
)

# What it is called, the dict, its copy, its keys and values in order, the class whose dict it is, and whether it may
# hold no new names.
_Space = tuple[str, Any, dict[Any, Any], list[Any], list[Any], type | None, bool]
_Container = list[Any] | dict[Any, Any]


def picture_of(
    modules: dict[str, types.ModuleType], package: str, parts: str, lists: dict[str, _Container]
) -> Callable[[str], Callable[[], list[str]]]:
    """Takes the picture.

    Args:
        modules: those whose names must stay, and those of torch's and this package's classes among them.
        package: its modules and classes must hold the names that they hold and no more.
        parts: the prefix of modules of which only one is needed at a time: lessons. To look at an object is to write
            its reference count, and in a fork each page that is written is copied first.
        lists: lists and dicts that must hold what they hold and nothing more, by the name that a report should use.

    Returns:
        Takes the name of such a part. Returns a function that puts back what differs, and returns its names, sorted,
        each once.
    """
    spaces: list[_Space] = []
    seen = set[int]()

    def is_own(module: Any) -> bool:
        return isinstance(module, str) and f"{module}.".startswith(f"{package}.")

    def add(label: str, space: Any, owner: type | None, strict: bool) -> None:
        spaces.append((label, space, dict(space), list(space), list(space.values()), owner, strict))

    def add_class(label: str, kind: type, own: bool) -> None:
        module = getattr(kind, "__module__", "")
        watched = isinstance(module, str) and (own or module.partition(".")[0] == "torch")
        if watched and type(kind) is not _LEGACY and id(kind) not in seen:
            seen.add(id(kind))
            if strict := own and is_own(module):
                copyreg._slotnames(kind)  # type: ignore[attr-defined]  # which the first copy would note in it
            add(label, vars(kind), kind, strict)
            for key, item in list(vars(kind).items()):
                if isinstance(item, type):
                    add_class(f"{label}.{key}", item, strict)

    for name, module in modules.items():
        if id(module) not in seen:
            seen.add(id(module))
            add(name, vars(module), None, is_own(name) and name != package)
            for key, value in list(vars(module).items()):
                if not key.startswith("__") and isinstance(value, type):
                    add_class(f"{name}.{key}", value, is_own(name))
    held = [(label, one, one.copy()) for label, one in lists.items()]
    imported = {name: sys.modules[name] for name in modules if name in sys.modules}

    def restorer(part: str) -> Callable[[], list[str]]:
        here = f"{parts}{part}."
        mine = [one for one in spaces if not one[0].startswith(parts) or f"{one[0]}.".startswith(here)]
        return _restorer(mine, held, imported, package)

    return restorer


def _restorer(
    spaces: list[_Space],
    held: list[tuple[str, _Container, _Container]],
    imported: dict[str, types.ModuleType],
    package: str,
) -> Callable[[], list[str]]:
    kernels = _kernels()
    of_sys = {name: getattr(sys, name) for name in _SYS_NAMES}
    searched = [(name, getattr(sys, name), list(getattr(sys, name))) for name in _SEARCHED]

    def restore() -> list[str]:
        changed = {f"torch's own operation {name}" for name in _kernels() - kernels}  # which cannot be put back
        for name, value in of_sys.items():
            if getattr(sys, name, None) is not value:
                setattr(sys, name, value)
                changed.add(f"sys.{name}")
        for name, places, kept in searched:
            own = [item for item in getattr(sys, name, ()) if not any(item is one for one in kept)]
            places[:] = [*kept, *own]
            setattr(sys, name, places)
        for name, module in imported.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                changed.add(f"sys.modules[{name!r}]")
        for label, space, before, keys, values, owner, strict in spaces:
            # Never `==` on the values: one of a student's own could say that it equals anything.
            if list(space) != keys or not all(map(_is, space.values(), values)):
                changed.update(_put_back(label, space, before, owner, strict, package))
        for label, container, content in held:
            if not _holds_the_same(container, content):
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)
                changed.add(label)
        return sorted(changed)

    return restore


def _kernels() -> frozenset[str]:
    """Implementations that were registered from Python for operations of torch itself."""
    registered = getattr(torch.library, "_impls", ())
    return frozenset(name for name in registered if type(name) is str and name.startswith("aten/"))


def _put_back(
    label: str, space: Any, before: dict[Any, Any], owner: type | None, strict: bool, package: str
) -> Iterator[str]:
    for key, value in before.items():
        now = space.get(key, _MISSING)
        if now is value:
            continue
        if not label.startswith(package) and not _can_be_called(value):
            continue  # a counter or a flag that torch or the library keeps for itself
        if owner is not None:
            type.__setattr__(owner, key, value)
        else:
            space[key] = value
        if f"{label}.{key}" not in _MAY_CHANGE and key not in _NOISE and not _is_torch_s_own(now, value):
            yield f"{label}.{key}"
    for key in [key for key in space if key not in before and key not in _NOISE]:
        # A module of torch fills up on first use; but a new name can stand before Python's own or an inherited one.
        if owner is None and (strict or key in _BUILTIN_NAMES):
            del space[key]
            yield f"{label}.{key}"
        elif owner is not None and (strict or any(key in vars(base) for base in owner.__mro__[1:])):
            type.__delattr__(owner, key)
            yield f"{label}.{key}"


def _can_be_called(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod, property, types.ModuleType))


def _is_torch_s_own(now: Any, before: Any) -> bool:
    """Whether torch put a wrapper of its own round a function, as its optimizers and its compiler do: no news."""
    if type(now) is not types.FunctionType or not str.startswith(now.__code__.co_filename, _TORCH):
        return False
    return any(_content(cell) is before for cell in now.__closure__ or ())


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _MISSING


def _holds_the_same(container: Any, kept: Any) -> bool:
    if len(container) != len(kept):
        return False
    if isinstance(kept, dict):
        return all(container.get(key, _MISSING) is value for key, value in kept.items())
    return all(map(_is, container, kept))

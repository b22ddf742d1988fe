"""What everything that judges stood for before a student's code ran, and putting it back (``picture_of``).

A picture is taken once, in the warm interpreter. It goes through modules, functions, classes and the plain containers
and objects of this package that they hold, and keeps who held what. What it returns finds what differs, puts it back
and says so. There is no class here that a student's code could find among all classes, and nothing calls a name that it
could have replaced.
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

# What makes a function what it is, and where its code has a use for it. To read one is an event for ``audit``.
_FIELDS = {"__code__": "co_code", "__defaults__": "co_argcount", "__kwdefaults__": "co_kwonlyargcount"}
# Of torch.FloatTensor and its like: no tensor is of such a class, and each repeats all names of torch.Tensor.
_LEGACY = type(torch.FloatTensor)
_MISSING = object()
_TORCH = os.path.dirname(torch.__file__) + os.sep
_is = operator.is_
_NEW_NAMES = frozenset(vars(builtins))  # which a module that is given one of them sees in place of Python's own

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

# What it is called, the dict, its copy, its keys and values in order, the class whose dict it is, and how strict to be.
_Space = tuple[str, Any, dict[Any, Any], list[Any], list[Any], type | None, bool]
_Record = tuple[str, Any, Any]  # what it is called, what may change, and what it held


def picture_of(
    modules: dict[str, types.ModuleType], package: str, parts: str, lists: dict[str, list[Any] | dict[Any, Any]]
) -> Callable[[str], Callable[[], list[str]]]:
    """Takes the picture.

    Args:
        modules: those whose names must stay; their functions and classes are looked into.
        package: its modules and objects are looked into as far as they go, and must hold what they hold and no more.
        parts: the prefix of modules of which only one is needed at a time: lessons. To look at an object is to write
            its reference count, and in a fork each page that is written is copied first.
        lists: lists and dicts that must hold what they hold and nothing more, by the name that a report should use.

    Returns:
        Takes the name of such a part. Returns a function that puts back what differs, and returns its names, sorted,
        each once.
    """
    spaces: list[_Space] = []
    held: list[_Record] = [(label, one, one.copy()) for label, one in lists.items()]
    functions: list[_Record] = []
    cells: list[_Record] = []
    seen: dict[int, Any] = {}  # whose values are kept, so that no id is used again

    def first_time(value: Any) -> bool:
        known = id(value) in seen
        seen[id(value)] = value
        return not known

    def is_own(module: Any) -> bool:
        return isinstance(module, str) and f"{module}.".startswith(f"{package}.")

    def add(label: str, space: Any, owner: type | None, strict: bool) -> None:
        spaces.append((label, space, dict(space), list(space), list(space.values()), owner, strict))

    def look(label: str, value: Any, deep: bool) -> None:
        if isinstance(value, types.FunctionType):
            function(label, value, deep)
        elif isinstance(value, type):
            module = getattr(value, "__module__", "")
            watched = isinstance(module, str) and (deep or module.partition(".")[0] == "torch")
            if watched and type(value) is not _LEGACY and first_time(value):
                deep = deep and is_own(module)
                if deep:
                    copyreg._slotnames(value)  # type: ignore[attr-defined]  # which the first copy would note in it
                add(label, vars(value), value, deep)
                for key, item in list(vars(value).items()):
                    look(f"{label}.{key}", item, deep)
        elif isinstance(value, (staticmethod, classmethod)):
            look(label, value.__func__, deep)
        elif isinstance(value, property):
            for accessor in (value.fget, value.fset, value.fdel):
                look(label, accessor, deep)
        elif deep and type(value) in (dict, list, tuple, set) and first_time(value):
            container(label, value)
        elif deep and is_own(type(value).__module__) and first_time(value):
            space = getattr(value, "__dict__", None)
            if type(space) is dict and first_time(space):
                container(label, space)

    def function(label: str, value: types.FunctionType, deep: bool) -> None:
        if not first_time(value):
            return
        functions.append((label, value, tuple(getattr(value, field) for field in _FIELDS)))
        if not (deep and is_own(value.__module__)):
            return
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            content = _content(cell)
            if content is _MISSING:
                continue
            cells.append((f"{label}'s {name}", cell, content))
            look(f"{label}'s {name}", content, deep)
        for item in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            look(label, item, deep)
        look(label, vars(value).get("__wrapped__"), deep)

    def container(label: str, value: Any) -> None:
        if type(value) is dict:
            add(label, value, None, True)
        elif type(value) in (list, set):
            held.append((label, value, value.copy()))
        if type(value) is not set:
            for item in list(value.values() if type(value) is dict else value):
                look(label, item, True)

    for name, module in modules.items():
        if first_time(module):
            deep = is_own(name)
            add(name, vars(module), None, deep and name != package)
            for key, value in list(vars(module).items()):
                if not key.startswith("__"):
                    look(f"{name}.{key}", value, deep)

    def restorer(part: str) -> Callable[[], list[str]]:
        here = f"{parts}{part}."

        def mine(records: list[Any]) -> list[Any]:
            return [one for one in records if not one[0].startswith(parts) or f"{one[0]}.".startswith(here)]

        imported = {name: sys.modules[name] for name in modules if name in sys.modules}
        return _restorer(mine(spaces), mine(held), mine(functions), mine(cells), imported, package)

    return restorer


def _restorer(
    spaces: list[_Space],
    held: list[_Record],
    functions: list[_Record],
    cells: list[_Record],
    imported: dict[str, types.ModuleType],
    package: str,
) -> Callable[[], list[str]]:
    fields = []
    for field, used in _FIELDS.items():
        get, bare = operator.attrgetter(field), [one for _, one, _ in functions if getattr(one.__code__, used)]
        fields.append((get, bare, list(map(get, bare))))
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
                changed.update(_restored(label, space, before, owner, strict, package))
        for label, container, content in held:
            if not _holds_the_same(container, content):
                container.clear()
                container.extend(content) if isinstance(content, list) else container.update(content)
                changed.add(label)
        if not all(all(map(_is, map(get, bare), before)) for get, bare, before in fields):
            for label, one, own_fields in functions:
                for field, value in zip(_FIELDS, own_fields, strict=True):
                    if getattr(one, field) is not value:
                        setattr(one, field, value)
                        changed.add(label)
        for label, cell, content in cells:
            if _content(cell) is not content:
                cell.cell_contents = content
                changed.add(label)
        return sorted(changed)

    return restore


def _kernels() -> frozenset[str]:
    """Implementations that were registered from Python for operations of torch itself."""
    registered = getattr(torch.library, "_impls", ())
    return frozenset(name for name in registered if type(name) is str and name.startswith("aten/"))


def _restored(
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
        if owner is None and (strict or key in _NEW_NAMES):
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


def _holds_the_same(held: Any, kept: Any) -> bool:
    if len(held) != len(kept):
        return False
    if isinstance(kept, set):
        return held == kept
    if isinstance(kept, dict):
        return all(held.get(key, _MISSING) is value for key, value in kept.items())
    return all(map(_is, held, kept))

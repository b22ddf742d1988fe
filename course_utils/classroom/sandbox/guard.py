"""What stands between a student's code and what judges it, inside one interpreter: a ``picture`` of the names that a
check calls, which puts back and tells what was replaced, and a ``watch`` that refuses an answer the way to its judge
while it is judged.

Neither is a wall: Python has none. They meet what is done by accident, or by a few lines that somebody found. Both are
held by functions that no name and no frame leads to while cells run.
"""

from __future__ import annotations

import builtins
import gc
import operator
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

_MISSING, _is, _LEGACY = object(), operator.is_, type(torch.FloatTensor)
_TORCH = os.path.dirname(torch.__file__) + os.sep
_BUILTINS = frozenset(vars(builtins))
# IPython, torch and a fork set these by themselves; how things are shown decides nothing.
_MAY_CHANGE = {
    *("builtins." + name for name in ("_", "__", "___", "exit", "quit", "display", "get_ipython")),
    *("threading." + name for name in ("_active_limbo_lock", "_shutdown_locks", "_shutdown_locks_lock", "_active")),
    *("threading." + name for name in ("_main_thread", "_limbo", "_dangling")),
    *("torch.Tensor." + name for name in ("__repr__", "__str__", "__format__")),
    *("warnings." + name for name in ("formatwarning", "showwarning", "filters", "_showwarnmsg_impl")),
    "torch.Storage",
}
_NOISE = {"__warningregistry__", "__builtins__", "__annotations_cache__", "__path__"}
_SYS = ("excepthook", "unraisablehook", "exit", "intern", "_getframe", "_current_frames", "settrace", "setprofile")

Space = tuple[str, Any, dict[str, Any], Any]  # what it is called, the dict, what it held, the class whose dict it is


def picture(modules: dict[str, types.ModuleType], lists: dict[str, Any]) -> Callable[[], list[str]]:
    """Notes what the names of modules and of torch's and this package's classes stand for.

    Args:
        modules: those whose names must stay.
        lists: lists and dicts that must hold what they hold, by the name that a report should use.

    Returns:
        Puts back what differs, and returns what that was, sorted.
    """
    spaces: list[Space] = [("sys.modules", sys.modules, dict(modules), sys)]
    spaces += [("sys", vars(sys), {name: getattr(sys, name) for name in _SYS}, sys)]
    seen = set[int]()

    def add_class(label: str, kind: type) -> None:
        if id(kind) in seen or type(kind) is _LEGACY or _root(kind.__module__) not in ("torch", "course_utils"):
            return
        seen.add(id(kind))
        spaces.append((label, vars(kind), dict(vars(kind)), kind))
        for name, value in list(vars(kind).items()):
            if isinstance(value, type):
                add_class(f"{label}.{name}", value)

    for label, module in modules.items():
        spaces.append((label, vars(module), dict(vars(module)), None))
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and not name.startswith("__"):
                add_class(f"{label}.{name}", value)
    held = [(label, one, one.copy()) for label, one in lists.items()]
    places: tuple[list[Any], ...] = (sys.path, sys.meta_path, sys.path_hooks)
    searched = [(place, list(place)) for place in places]
    kernels = _kernels()

    def restore() -> list[str]:
        changed = {f"torch's own operation {name}" for name in _kernels() - kernels}  # which cannot be put back
        for label, space, before, owner in spaces:
            whole = owner is sys or len(space) == len(before)
            # Never ``==`` on the values: one of a student's own could say that it equals anything.
            if not whole or not all(map(_is, map(space.get, before), before.values())):
                changed.update(_put_back(label, space, before, owner))
        for label, container, content in held:
            same = list(container) == list(content) if isinstance(content, dict) else len(container) == len(content)
            if not same or not all(map(_is, _values(container), _values(content))):
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)
                changed.add(label)
        for place, kept in searched:  # a student's own places come after the genuine ones
            place[:] = kept + [item for item in place if not any(item is one for one in kept)]
        return sorted(changed)

    return restore


def _put_back(label: str, space: Any, before: dict[str, Any], owner: Any) -> list[str]:
    changed = []
    is_class = isinstance(owner, type)
    for name, value in before.items():
        now = space.get(name, _MISSING)
        # What is not called is a counter or a flag that torch or the library keeps for itself.
        if now is value or not (
            callable(value) or isinstance(value, (staticmethod, classmethod, property, types.ModuleType))
        ):
            continue
        type.__setattr__(owner, name, value) if is_class else space.__setitem__(name, value)
        if f"{label}.{name}" not in _MAY_CHANGE and name not in _NOISE and not _wraps(now, value):
            changed.append(f"{label}.{name}")
    for name in [name for name in space if name not in before] if owner is not sys else ():
        # A new name can stand before Python's own or an inherited one.
        hides = any(name in vars(base) for base in owner.__mro__[1:]) if is_class else name in _BUILTINS
        if hides and name not in _NOISE:
            type.__delattr__(owner, name) if is_class else space.__delitem__(name)
            changed.append(f"{label}.{name}")
    return changed


def _wraps(now: Any, before: Any) -> bool:
    """Whether torch put a wrapper of its own round a function, as its optimizers and its compiler do."""
    if type(now) is not types.FunctionType or not str.startswith(now.__code__.co_filename, _TORCH):
        return False
    return any(cell.cell_contents is before for cell in now.__closure__ or () if cell != types.CellType())


def _kernels() -> frozenset[str]:
    registered = getattr(torch.library, "_impls", ())
    return frozenset(name for name in registered if type(name) is str and name.startswith("aten/"))


def _values(container: Any) -> Any:
    return container.values() if isinstance(container, dict) else container


def _root(name: object) -> str:
    return name.partition(".")[0] if isinstance(name, str) else ""


_FRAMES, _OBJECTS = (
    "looked at the frames of its callers",
    "asked the garbage collector for objects that are not its own",
)
_TRACE, _MEMORY = "wanted to be told of every line or call", "read or wrote the interpreter's memory"
_REFUSED = {
    **dict.fromkeys(("sys._getframe", "sys._current_frames", "object.__getattr__"), _FRAMES),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers"), _OBJECTS),
    **dict.fromkeys(("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"), _TRACE),
}
_OF_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_OF_CODE = frozenset({"__code__", "__defaults__", "__kwdefaults__"})
_HAND_FRAMES_ON = ("inspect.py", "bdb.py", "pdb.py", "trace.py", "traceback.py", "operator.py", "functools.py")


def watch(roots: tuple[str, ...]) -> tuple[Callable[[], None], list[str]]:
    """Refuses, from the call of what it returns on, what leads an answer to the frames, objects or memory of what
    judges it; at any time, to change the code of somebody else's function.

    Args:
        roots: folders whose code is not a student's.

    Returns:
        To be called when judging begins; and a list that gets what was refused, in words.
    """
    library = sysconfig.get_path("stdlib")
    trusted = tuple(os.path.join(root, "") for root in (library, *roots))
    hand_on = (*(os.path.join(library, name) for name in _HAND_FRAMES_ON), "/IPython/utils/frame.py")
    refused, judging, get_frame, frozen_count = list[str](), list[bool](), sys._getframe, gc.get_freeze_count
    frozen = list[int]()

    def is_trusted(name: str) -> bool:
        return str.startswith(name, trusted) or str.startswith(name, "<frozen ")

    def asked_by_student() -> bool:
        frame: types.FrameType | None = get_frame(3)
        while frame is not None and str.endswith(frame.f_code.co_filename, hand_on):
            frame = frame.f_back
        return frame is not None and not is_trusted(frame.f_code.co_filename)

    busy, me = set[int](), threading.get_ident

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if me() in busy:  # to look at frames is an event of its own
            return
        busy.add(me())
        try:
            what = asks(event, args)
        finally:
            busy.discard(me())
        if what:
            refused.append(what)
            raise RuntimeError(f"Not available while a submission is graded: this code {what}.")

    def asks(event: str, args: tuple[Any, ...]) -> str:
        what = ""
        if event == "object.__getattr__":
            what = _FRAMES if judging and args[1] in _OF_FRAMES and asked_by_student() else ""
        elif event in _REFUSED:
            seen = judging or (event.startswith("gc.") and frozen and frozen_count() < frozen[0])
            what = _REFUSED[event] if seen and asked_by_student() else ""
        elif event == "object.__setattr__":
            if args[1] in _OF_CODE and asked_by_student():
                code = getattr(args[0], "__code__", None)
                if type(code) is types.CodeType and is_trusted(code.co_filename):
                    what = "replaced the code of a function that is not its own"
        elif event in ("compile", "code.__new__"):
            if type(args[1]) is str and str.startswith(args[1], trusted) and asked_by_student():
                what = "made code under the name of somebody else's file"
        elif judging and event.startswith("ctypes."):
            what = _MEMORY if asked_by_student() else ""
        elif event == "sys.addaudithook" and frozen:
            raise RuntimeError  # Python itself then leaves the hook out, and says nothing
        return what

    def begin() -> None:
        judging.append(True)
        frozen.append(frozen_count())

    sys.addaudithook(hook)
    return begin, refused

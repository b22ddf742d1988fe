"""What stands between a student's code and what judges it, inside one interpreter: a ``picture`` of the names that a
check calls, which puts back and tells what was replaced, and a ``watch`` that refuses an answer the way to its judge
while it is judged.

Neither is a wall: Python has none. They meet what is done by accident, or by a few lines that somebody found. Both are
held by functions that no name and no frame leads to while cells run.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import torch

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

_MISSING, _is, _LEGACY = object(), operator.is_, type(torch.FloatTensor)
_TORCH = os.path.dirname(torch.__file__) + os.sep
_CALLED = (staticmethod, classmethod, property, types.ModuleType)  # and whatever can be called
# IPython and Python set these by themselves.
_MAY_CHANGE = {"exit", "quit", "display", "get_ipython", "__builtins__", "__warningregistry__", "__annotations_cache__"}
_SYS = ("excepthook", "unraisablehook", "exit", "intern", "_getframe", "_current_frames", "settrace", "setprofile")


def picture(modules: dict[str, types.ModuleType], hooks: dict[str, dict[Any, Any]]) -> Callable[[], list[str]]:
    """Notes what the names of modules and of torch's and this package's classes stand for.

    Args:
        modules: those whose names must stay.
        hooks: dicts that must stay empty, by the name that a report should use.

    Returns:
        Puts back what differs, and returns what that was, sorted.
    """
    # What it is called, its names, what they stood for, and whose they are: a module's, a class's, or everybody's.
    spaces: list[tuple[str, Any, dict[str, Any], Any]] = [
        ("sys.modules", sys.modules, dict(modules), None),
        ("sys", vars(sys), {name: getattr(sys, name) for name in _SYS}, None),
    ]
    seen = set[int]()

    def add(label: str, owner: Any) -> None:
        spaces.append((label, vars(owner), dict(vars(owner)), owner))
        for name, kind in list(vars(owner).items()):
            is_kind = isinstance(kind, type) and type(kind) is not _LEGACY and id(kind) not in seen
            if is_kind and str(kind.__module__).partition(".")[0] in ("torch", "course_utils"):
                seen.add(id(kind))
                add(f"{label}.{name}", kind)

    for label, module in modules.items():
        add(label, module)
    places: tuple[list[Any], ...] = (sys.path, sys.meta_path, sys.path_hooks)
    searched = [(place, list(place)) for place in places]
    kernels = _kernels()

    def restore() -> list[str]:
        changed = {f"torch's own operation {name}" for name in _kernels() - kernels}  # which cannot be put back
        for label, space, before, owner in spaces:
            # Never ``==`` on the values: one of a student's own could say that it equals anything.
            if (owner is not None and len(space) > len(before)) or not all(
                map(_is, map(space.get, before), before.values())
            ):
                changed.update(f"{label}.{name}" for name in _put_back(space, before, owner))
        for label, hook in hooks.items():
            changed.update([label] * bool(hook))
            hook.clear()
        for place, genuine in searched:  # a student's own places come after the genuine ones
            place[:] = genuine + [item for item in place if not any(item is one for one in genuine)]
        return sorted(changed)

    return restore


def _put_back(space: Any, before: dict[str, Any], owner: Any) -> list[str]:
    """Puts names back; returns those that somebody replaced."""
    changed, is_class = [], isinstance(owner, type)
    for name, value in before.items():
        now = space.get(name, _MISSING)
        # What is not called is a counter or a flag that torch or the library keeps for itself.
        if now is not value and (callable(value) or isinstance(value, _CALLED)):
            type.__setattr__(owner, name, value) if is_class else space.__setitem__(name, value)
            if not _wraps(now, value):
                changed.append(name)
    for name in [name for name in space if name not in before] if owner is not None else ():
        # A new name can stand before an inherited one, or Python's own.
        others = owner.__mro__[1:] if is_class else (builtins,)
        if name not in _MAY_CHANGE and any(name in vars(other) for other in others):
            type.__delattr__(owner, name) if is_class else space.__delitem__(name)
            changed.append(name)
    return [name for name in changed if name not in _MAY_CHANGE]


def _wraps(now: Any, before: Any) -> bool:
    """Whether torch put a wrapper of its own round a function, as its optimizers and its compiler do."""
    if type(now) is not types.FunctionType or not str.startswith(now.__code__.co_filename, _TORCH):
        return False
    return any(cell.cell_contents is before for cell in now.__closure__ or () if cell != types.CellType())


def _kernels() -> frozenset[str]:
    registered = getattr(torch.library, "_impls", ())
    return frozenset(name for name in registered if type(name) is str and name.startswith("aten/"))


_FRAMES, _MEMORY = "looked at the frames of its callers", "read or wrote the interpreter's memory"
_OBJECTS = "asked the garbage collector for objects that are not its own"
_REFUSED = {
    **dict.fromkeys(("sys._getframe", "sys._current_frames"), _FRAMES),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), _OBJECTS),
    **dict.fromkeys(
        ("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback", "sys.addaudithook"),
        "wanted to be told of every line or call",
    ),
}
_OF_FRAMES, _OF_CODE = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}, {"__code__", "__defaults__", "__kwdefaults__"}
_HAND_FRAMES_ON = ("inspect.py", "bdb.py", "pdb.py", "trace.py", "traceback.py", "operator.py", "functools.py")


def watch(roots: tuple[str, ...]) -> Callable[[], list[str]]:
    """Refuses, from the call of what it returns on, what leads an answer to the frames, objects or memory of what
    judges it; at any time, to change the code of somebody else's function.

    Args:
        roots: folders whose code is not a student's.

    Returns:
        To be called when judging begins: gives a list that gets what is refused, in words.
    """
    library = sysconfig.get_path("stdlib")
    trusted = ("<frozen ", *(os.path.join(root, "") for root in (library, *roots)))
    hand_on = (*(os.path.join(library, name) for name in _HAND_FRAMES_ON), "/IPython/utils/frame.py")
    refused, get_frame = list[str](), sys._getframe
    is_judging = is_looking = False

    def asked_by_student() -> bool:
        frame: types.FrameType | None = get_frame(2)
        while frame is not None and str.endswith(frame.f_code.co_filename, hand_on):
            frame = frame.f_back
        return frame is not None and not str.startswith(frame.f_code.co_filename, trusted)

    def asked(event: str, args: tuple[Any, ...]) -> str:
        if event == "object.__setattr__" and args[1] in _OF_CODE:
            code = getattr(args[0], "__code__", None)
            is_own = type(code) is not types.CodeType or not str.startswith(code.co_filename, trusted)
            return "" if is_own else "replaced the code of a function that is not its own"
        if not is_judging:
            return ""
        if event == "object.__getattr__":
            return _FRAMES if args[1] in _OF_FRAMES else ""
        return _MEMORY if event.startswith("ctypes.") else _REFUSED.get(event, "")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal is_looking
        if is_looking:  # to look at frames is an event of its own
            return
        is_looking = True
        try:
            what = asked(event, args)
            if not what or not asked_by_student():
                return
        finally:
            is_looking = False
        refused.append(what)
        raise RuntimeError(f"Not available while a submission is graded: this code {what}.")

    def begin() -> list[str]:
        nonlocal is_judging
        is_judging = True
        return refused

    sys.addaudithook(hook)
    return begin

"""Holders that no variable leads to, found from the tensor backwards: a list that is being built, an object that only
the stack of a running function has, and objects in a circle that only the garbage collector frees (``roots_behind``).
"""

import gc
import linecache
import re
import sys
from collections.abc import Container, Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from course_utils.base.user_code import frames_of_all_threads, is_user_file
from course_utils.graph.references import living_tensors
from course_utils.graph.steps import is_users_class, reaches_itself
from course_utils.graph.storages import storages_of
from course_utils.holders.search import Root

_COMPREHENSIONS = {"<listcomp>": list, "<setcomp>": set, "<dictcomp>": dict, "<genexpr>": list}
_BUILDS = re.compile(r"\b(list|set|dict|map|for)\b")
_CONTAINERS = (list, set, dict)
_MANY = 4
_LEVELS = 6
_MOST = 24
"""A pass over all objects compares each of their references with so many things at most."""


def roots_behind(targets: Iterable[int]) -> Iterator[Root]:
    """The holders of storages that a search from variables did not reach, by ``id``. Looks at all objects, once for
    each of a few levels.
    """
    below: list[Any] = _tensors_on(set(targets))
    met: dict[int, Any] = {}
    own = {id(met), id(below)}
    for _ in range(_LEVELS):
        below = below[-_MOST:]
        met.update((id(thing), thing) for thing in below)
        own.add(id(below))
        found = gc.get_referrers(*below) if below else []
        above = [thing for thing in found if id(thing) not in own and type(thing) is not FrameType]
        parents = {id(inner) for thing in above for inner in gc.get_referents(thing)}
        for thing in below:
            if id(thing) not in parents:
                yield from _alone(thing)
        for thing in above:
            yield from _circle(thing, met)
        below = [thing for thing in above if id(thing) not in met]
        own |= {id(found), id(above)}


def _tensors_on(wanted: set[int]) -> list[torch.Tensor]:
    return [tensor for tensor in living_tensors() if any(id(storage) in wanted for storage in storages_of(tensor))]


def _alone(thing: Any) -> Iterator[Root]:
    """A container or an object of the user's that only a running function can have: on its stack, under no name."""
    kind = type(thing)
    if kind in _CONTAINERS and len(thing) >= _MANY:
        frames = list(_users_frames())
        builders = [frame for frame in frames if _COMPREHENSIONS.get(frame.f_code.co_name) is kind]
        builders += [frame for frame in frames if _BUILDS.search(_line_of(frame))]
        for frame in builders[:1]:
            outer = frame.f_back if frame.f_code.co_name in _COMPREHENSIONS and frame.f_back else frame
            name = f"the {kind.__name__} that is being built"
            yield Root("building", name, outer.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno or 0, thing)
    elif is_users_class(kind):
        yield Root("object", "self", kind.__name__, _file_of(kind), 0, thing)


def _line_of(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)


def _users_frames() -> Iterator[FrameType]:
    return (frame for frame in frames_of_all_threads() if is_user_file(frame.f_code.co_filename))


def _circle(thing: Any, sought: Container[int]) -> Iterator[Root]:
    """An object that leads to itself, by its attribute that leads on to what is looked for."""
    kind = type(thing)
    own = getattr(thing, "__dict__", None) if is_users_class(kind) and kind is not type else None
    if not isinstance(own, dict):
        return
    for name, value in list(own.items()):
        if id(value) in sought and value is not thing and reaches_itself(thing):
            yield Root("cycle", f"self.{name}", kind.__name__, _file_of(kind), 0, value)


def _file_of(kind: type) -> str:
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""

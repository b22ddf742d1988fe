"""Holders that no variable leads to, found from the tensor backwards: a list that a comprehension is building, and
objects in a circle that only the garbage collector frees (``links_without_names``).
"""

import gc
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from course_utils.graph.references import live_objects, probing_alone
from course_utils.graph.storages import storages_of
from course_utils.leaks.holders import Holder, Link
from course_utils.leaks.search import reachable_from
from course_utils.leaks.user_code import frames_of_all_threads, is_user_file

_COMPREHENSIONS = {"<listcomp>": list, "<setcomp>": set, "<dictcomp>": dict}
_CONTAINERS = (list, set, dict)


def links_without_names(targets: Iterable[int]) -> dict[int, Link]:
    """How storages are kept that a search from variables did not reach, by ``id``; without those still unexplained.

    Slow: looks at all objects for each of a few levels.
    """
    wanted, links = set(targets), {}
    with probing_alone():
        tensors: dict[int, list[torch.Tensor]] = {}
        for tensor in live_objects()[0]:
            for storage in storages_of(tensor):
                if id(storage) in wanted:
                    tensors.setdefault(id(storage), []).append(tensor)
        every = [tensor for group in tensors.values() for tensor in group]
        referrers = [thing for thing in gc.get_referrers(*every) if thing is not every] if every else []
        own = {id(group) for group in tensors.values()} | {id(tensors), id(every)}
        for key, group in tensors.items():
            holders = [thing for thing in referrers if id(thing) not in own and _refers(thing, group)]
            link = _building(holders, group) or _circle(holders, group)
            if link is not None:
                links[key] = link
    return links


def _refers(thing: Any, group: list[torch.Tensor]) -> bool:
    return any(inner is tensor for inner in gc.get_referents(thing) for tensor in group)


def _building(holders: list[Any], group: list[torch.Tensor]) -> Link | None:
    """A container that nothing refers to but a running comprehension."""
    for thing in holders:
        if type(thing) not in _CONTAINERS or len(thing) < 4:
            continue
        for frame in _users_frames():
            name = frame.f_code.co_name
            if name not in _COMPREHENSIONS and frame.f_code.co_filename:
                # From Python 3.12 a comprehension runs in the frame of its function.
                if not _newer_than_comprehension_frames():
                    continue
            elif _COMPREHENSIONS.get(name) is not type(thing):
                continue
            outer = frame.f_back if name in _COMPREHENSIONS and frame.f_back is not None else frame
            kind = type(thing).__name__
            holder = Holder(
                f"the {kind} that a comprehension builds",
                "building",
                outer.f_code.co_qualname,
                frame.f_code.co_filename,
                container=kind,
                count=len(thing),
                scope="local",
                first_line=frame.f_lineno or 0,
            )
            graph = any(tensor.grad_fn is not None for tensor in group)
            return Link(holder, graph=False, history=graph)
    return None


def _newer_than_comprehension_frames() -> bool:
    return sys.version_info >= (3, 12)


def _users_frames() -> Iterator[FrameType]:
    return (frame for frame in frames_of_all_threads() if is_user_file(frame.f_code.co_filename))


def _circle(holders: list[Any], group: list[torch.Tensor]) -> Link | None:
    """An object that leads to itself, and to the tensor by an attribute."""
    for thing in holders:
        for owner, attribute in _owners(thing, group):
            if reachable_from(owner, owner):
                kind = type(owner)
                holder = Holder(
                    f"self.{attribute}", "cycle", kind.__name__, _file_of(kind), ("attribute", attribute),
                    scope="attribute",
                )  # fmt: skip
                return Link(holder, graph=False)
    return None


def _owners(thing: Any, group: list[torch.Tensor]) -> Iterator[tuple[Any, str]]:
    """The objects that have a thing as their attributes, with the attribute's name."""
    candidates = [thing] if type(thing) not in (list, tuple, set) else []
    if type(thing) is dict:
        candidates = gc.get_referrers(thing)
    for owner in candidates:
        own = getattr(owner, "__dict__", None) if type(owner).__module__ != "builtins" else None
        if isinstance(own, dict):
            for name, value in list(own.items()):
                if any(value is tensor for tensor in group):
                    yield owner, name


def _file_of(kind: type) -> str:
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""

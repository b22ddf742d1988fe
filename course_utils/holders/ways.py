"""What a way to a storage says about who keeps it (``link_of``)."""

import re
from collections import deque
from dataclasses import replace
from functools import _lru_cache_wrapper
from types import FrameType, TracebackType
from typing import Any

import torch

from course_utils.base.text import dtype_name
from course_utils.base.user_code import is_user_file
from course_utils.graph import operation_name
from course_utils.graph.recorded import is_node
from course_utils.graph.steps import Edge, file_of, is_users_class
from course_utils.holders.holder import CACHE_OF, Holder, Link
from course_utils.holders.search import Path

_MANY = 4
"""A container with fewer things in it is part of a name: ``state["loss"]``."""

_UNSPOKEN = ("__self__", "__dict__", "__traceback__")
_WRAPS = ("queue", "weakref", "asyncio.queues", "multiprocessing.queues")
"""Modules of containers that keep what they contain in an attribute of their own."""

_LET_GO = ("reset", "clear")
"""Methods by which an object of a library's lets go of what it has gathered."""

_MEMBERS = ("_modules", "_buffers", "_parameters")
_HOOKS = {
    "_forward_hooks": "a forward hook",
    "_forward_pre_hooks": "a forward pre-hook",
    "_backward_hooks": "a backward hook",
    "_backward_pre_hooks": "a backward pre-hook",
}
"""For each attribute with hooks, what one is; ``register_forward_hook`` and the like put it there."""


def link_of(path: Path) -> Link:
    """Reads a way from a variable to a storage."""
    first = _first(path)
    graph = any(is_node(thing) for thing in path.things)
    saved = ""
    if graph and path.edges and path.edges[-1].kind == "saved":
        slot = str(path.edges[-1].name)
        saved = f"{operation_name(type(path.things[-2]).__name__)} ({slot})"
    last = path.things[-1]
    tensor = f"{dtype_name(last.dtype)}{list(last.shape)}" if isinstance(last, torch.Tensor) else ""
    held = path.things[first]
    scalar = isinstance(held, torch.Tensor) and held.numel() == 1
    keeper = _keeper(path, first)
    return Link(
        _holder(path, first, keeper),
        graph,
        saved,
        tensor,
        scalar,
        direct=keeper is None or first == keeper + 1,
        error=any(type(thing) is TracebackType for thing in path.things[1:first]),
        history=isinstance(held, torch.Tensor) and held.grad_fn is not None,
        inside="" if keeper is None else inside(path, keeper + 1, first),
    )


def _first(path: Path) -> int:
    """The place on a way from which on there are only tensors and graphs."""
    return next((i for i in range(len(path.things)) if _begins_graph(path, i)), len(path.things) - 1)


def _begins_graph(path: Path, at: int) -> bool:
    """Whether from here on there are only tensors and graphs, and no attribute that a user gave to a tensor."""
    thing = path.things[at]
    if not (isinstance(thing, (torch.Tensor, torch.UntypedStorage)) or is_node(thing)):
        return False
    onwards = path.edges[at : at + 1]
    return all(edge.kind != "attribute" or edge.name in ("grad", "_base") for edge in onwards)


def _keeper(path: Path, first: int) -> int | None:
    """The place of the container on the way that is large enough to be what grows."""
    sizes = [(_size(path.things[i]), -i) for i in range(first)]
    many, at = max(sizes, default=(0, 0))
    return -at if many >= _MANY else None


def _holder(path: Path, first: int, keeper: int | None) -> Holder:
    root = path.root
    if root.kind == "cycle":
        return Holder(root.name, "cycle", root.where, root.file, ("attribute", root.name.rpartition(".")[2]))
    if root.kind == "building":
        container = type(root.value).__name__
        return Holder(
            root.name, "building", root.where, root.file, container=container, count=len(root.value), scope="local",
            first_line=root.line,
        )  # fmt: skip
    named = _Namer(root)
    stop = first if keeper is None else keeper
    for position in range(stop):
        named.step(path.edges[position], path.things[position], path.things[position + 1])
    holder = named.holder()
    if keeper is None:
        return holder
    container, last = path.things[keeper], path.edges[keeper - 1] if keeper else path.root
    name = holder.name
    if last.kind == "item" and isinstance(last.name, int):
        name = re.sub(r"\[\d+\]$", "[...]", name)  # one list of many: for each epoch, for each layer
    elif last.kind == "attribute" and last.name in _HOOKS and holder.hook:
        name += f".{last.name}"
    return replace(
        holder,
        name=name,
        kind="container",
        container=named.wrapped or type(container).__name__,
        count=_size(container),
        limit=_limit(container, path, keeper),
    )


def inside(path: Path, start: int = 0, stop: int | None = None) -> str:
    """Where something lies in a thing, as one would write it; of a function, or of a traceback, its variable."""
    text, member = "", False
    for edge, thing in zip(path.edges[start:stop], path.things[start:stop], strict=False):
        was_member, member = member, edge.name in _MEMBERS
        if edge.kind == "variable":
            text = f"`{edge.name}`, in the closure of `{thing.__qualname__}`"
        elif edge.kind == "local" and isinstance(thing, FrameType):
            text = f"`{edge.name}`, a variable of `{thing.f_code.co_qualname}`"
        elif edge.kind == "attribute" and edge.name not in _UNSPOKEN and not member:
            text += f".{edge.name}"
        elif was_member:
            text += f"[{edge.name}]" if edge.name.isdigit() else f".{edge.name}"
        elif edge.kind == "item" and not text.startswith("`"):
            field = getattr(thing, "_fields", None)
            text += f".{field[edge.name]}" if field else f"[{edge.name!r}]" if isinstance(edge.name, (str, int)) else ""
    return text.replace("'", '"')


def _size(thing: Any) -> int:
    if isinstance(thing, (list, tuple, dict, set, frozenset, deque)):
        return len(thing)
    return thing.size if type(thing).__name__ == "ndarray" and thing.dtype.hasobject else 0


def _limit(container: Any, path: Path, at: int) -> int | None:
    if isinstance(container, deque):
        return container.maxlen
    for thing in path.things[:at]:
        if isinstance(thing, _lru_cache_wrapper):
            return thing.cache_parameters()["maxsize"]  # type: ignore[attr-defined]
    return None


class _Namer:
    """Puts a name together, step by step."""

    def __init__(self, root: Any) -> None:
        self.name = root.name
        self.scope, self.where, self.file, self.line = root.kind, root.where, root.file, root.line
        self.tail, self.before_tail = ("name", root.name), ("", "")
        self.hook = self.library = self.lets_go = ""
        self.wrapped = ""
        self._member = False
        self._modules: list[str] = []

    def step(self, edge: Edge, thing: Any, inner: Any) -> None:
        """Adds a step from a thing to one inside it."""
        before, self.wrapped = self.tail, ""
        self._step(edge, thing, inner)
        if self.tail != before:
            self.before_tail = before

    def _step(self, edge: Edge, thing: Any, inner: Any) -> None:
        if edge.kind in ("local", "variable", "default"):
            self.name, self.tail, self.scope = str(edge.name), ("name", str(edge.name)), edge.kind
            code = getattr(thing, "__code__", None) or getattr(thing, "f_code", None) or getattr(thing, "gi_code", None)
            if code is not None:
                self.where, self.file = code.co_qualname, code.co_filename
                self.line = code.co_firstlineno
        elif edge.kind == "attribute":
            self._attribute(edge.name, thing)
        elif edge.kind == "item":
            self._item(edge.name, thing, inner)
        elif isinstance(thing, _lru_cache_wrapper):
            self.name, self.tail = f"{CACHE_OF}{thing.__name__}", ("name", thing.__name__)

    def _attribute(self, name: str, thing: Any) -> None:
        if name in _HOOKS and isinstance(thing, torch.nn.Module):
            inside = f" on `{'.'.join(self._modules)}`" if self._modules else f" on `{self.name}`"
            self.hook = _HOOKS[name] + inside
            self.tail = ("call", name.strip("_").removesuffix("s"))
            return
        if name in _MEMBERS and isinstance(thing, torch.nn.Module):
            self._member = True
            return
        if name in _UNSPOKEN:
            return
        if type(thing).__module__ in _WRAPS:
            self.wrapped = type(thing).__name__
            return
        self._modules.clear()
        users = isinstance(thing, (type, torch.Tensor)) or is_users_class(type(thing))
        self.library = "" if users or type(thing).__module__.partition(".")[0] in ("torch", "types") else self.name
        lets_go = (word for word in _LET_GO if self.library and callable(getattr(type(thing), word, None)))
        self.lets_go = next((f"{self.library}.{word}()" for word in lets_go), "")
        owner = "self" if not isinstance(thing, type) and is_users_class(type(thing)) else self.name
        self.name = f"{owner}.{name}"
        gradient_hooks = name == "_backward_hooks" and isinstance(thing, torch.Tensor)
        self.tail = ("call", "register_hook") if gradient_hooks else ("attribute", name)
        self.scope = "attribute"
        if not is_user_file(self.file):  # a library's variable led here
            self.file = file_of(type(thing)) or self.file
        self.where = type(thing).__name__ if not isinstance(thing, type) else thing.__name__
        if isinstance(thing, type):
            self.name = f"{thing.__name__}.{name}"

    def _item(self, key: Any, thing: Any, inner: Any) -> None:
        member, self._member = self._member, False
        if isinstance(key, str) and (member or isinstance(inner, torch.nn.Module)):
            if isinstance(inner, torch.nn.Module):
                self._modules.append(key)
            self.name += f"[{key}]" if key.isdigit() else f".{key}"  # the layers of a Sequential
            self.tail = ("attribute", key)
        elif isinstance(key, str):
            if self.hook:
                return
            self.name += f'["{key}"]'
            self.tail = ("key", key)
        elif not self.hook and isinstance(key, int):
            self.name += f"[{key}]"

    def holder(self) -> Holder:
        return Holder(
            self.name,
            "variable",
            self.where,
            self.file,
            self.tail,
            hook=self.hook,
            scope=self.scope,
            first_line=self.line,
            before_tail=self.before_tail,
            library=self.library,
            lets_go=self.lets_go,
        )

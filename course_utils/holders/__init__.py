"""Who keeps something, and under which name: the ways from the user's variables to storages (``find``), what is likely,
and quick to look at, first.

A search begins at the variables of running functions and modules, of suspended generators, and of custom Functions that
nothing refers to any more. Then it goes from the tensor backwards, to what no variable leads to: a list that is being
built, an object that only the stack of a running function has, objects in a circle that only the garbage collector
frees.
"""

import gc
import linecache
import logging
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from types import FrameType, ModuleType, TracebackType
from typing import Any

import torch

from course_utils.base.torch_private import FunctionBase
from course_utils.base.user_code import frames_of_all_threads, is_user_file
from course_utils.graph.recorded import storages_of
from course_utils.graph.references import living, living_tensors, probing_alone
from course_utils.graph.steps import (
    GENERATORS,
    file_of,
    frame_of,
    is_users_class,
    is_users_module,
    local_variables,
    reaches_itself,
)
from course_utils.holders.search import Root, Search

_LOG = logging.getLogger(__name__)

_FEW = 2_000
"""So many objects of libraries are looked into before less likely holders are."""
_COMPREHENSIONS = {"<listcomp>": list, "<setcomp>": set, "<dictcomp>": dict, "<genexpr>": list}
_BUILDS = re.compile(r"\b(list|set|dict|map|for)\b")
_CONTAINERS = (list, set, dict)
_MANY = 4
_LEVELS = 6
_MOST = 24
"""A pass over all objects compares each of their references with so many things at most."""


def find(storages: Iterable[int], traceback: TracebackType | None = None, seconds: float = 1.0) -> Search:
    """Looks for how each storage is kept: by the user's variables, by those of libraries' running functions, by
    suspended generators, or by nothing but a cycle; given the ``id`` of each, and the traceback of an error that ended
    the program, whose functions' variables are looked at too. It takes so many seconds of the processor's time at most.
    """
    looking = Search(storages)
    for roots, share, most_far in (
        (lambda: users_roots(traceback), seconds / 2, _FEW),
        (roots_in_libraries, seconds / 4, _FEW),
        (roots_in_heap, seconds / 4, 0),
        (lambda: roots_behind(looking.missing), seconds / 4, 0),
    ):
        _run(looking, roots, share, most_far)
    return looking


def search_from_users_variables(
    looking: Search, traceback: TracebackType | None = None, seconds: float = 0.2
) -> Search:
    """Runs a search from the user's variables alone; returns it."""
    _run(looking, lambda: users_roots(traceback), seconds, 0)
    return looking


def _run(looking: Search, roots: Callable[[], Iterable[Root]], seconds: float, most_far: int) -> None:
    if looking.missing:
        with probing_alone():
            try:
                looking.run(roots(), seconds, most_far)
            except Exception as error:  # whatever a user's objects do when they are looked at, their script goes on
                _LOG.debug("the search for holders ended early: %r", error)


def users_roots(traceback: TracebackType | None = None) -> Iterator[Root]:
    """The user's variables: of running functions, innermost first, of those that an error has ended, and of modules."""
    frames = frames_of_all_threads()
    while traceback is not None:
        frames.insert(0, traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in frames:
        if is_user_file(frame.f_code.co_filename):
            yield from _of_frame(frame)
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and is_users_module(module):
            yield from _of_module(module)


def roots_in_heap() -> Iterator[Root]:
    """The variables of the user's generators and coroutines that wait to be asked on; and the nodes of custom Functions
    by the attribute of ``ctx`` that refers to a tensor of the node's own making. Looks at all objects, once.
    """
    running = {id(frame) for frame in frames_of_all_threads()}
    found = living(lambda kind: kind in GENERATORS or issubclass(kind, FunctionBase))
    for thing in found:
        frame = frame_of(thing) if type(thing) in GENERATORS else None
        if frame is not None and id(frame) not in running and is_user_file(frame.f_code.co_filename):
            yield from _of_frame(frame)
    for thing in found:
        if type(thing) not in GENERATORS and hasattr(thing, "next_functions"):
            yield from _of_context(thing)


def roots_in_libraries() -> Iterator[Root]:
    """The variables of libraries' running functions, such as a trainer's."""
    for frame in frames_of_all_threads():
        if not is_user_file(frame.f_code.co_filename):
            yield from _of_frame(frame)


def _of_context(node: Any) -> Iterator[Root]:
    for name, value in list(vars(node).items()):
        inside = value if isinstance(value, (list, tuple)) else (value,)
        if any(isinstance(item, torch.Tensor) and item.grad_fn is node for item in inside):
            kind = getattr(type(node), "_forward_cls", type(node))
            yield Root("cycle", f"ctx.{name}", type(node).__name__.removesuffix("Backward"), file_of(kind), 0, node)


def _of_frame(frame: FrameType) -> Iterator[Root]:
    code = frame.f_code
    if frame.f_locals is frame.f_globals:
        return  # a module's variables
    for name, value in local_variables(frame).items():
        if name not in code.co_freevars:  # those are the enclosing function's
            yield Root("local", name, code.co_qualname, code.co_filename, code.co_firstlineno, value)


def _of_module(module: ModuleType) -> Iterator[Root]:
    file = getattr(module, "__file__", None) or ""
    for name, value in list(vars(module).items()):
        if not name.startswith("__"):
            yield Root("global", name, "", file, 0, value)


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
        yield Root("object", "self", kind.__name__, file_of(kind), 0, thing)


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
            yield Root("cycle", f"self.{name}", kind.__name__, file_of(kind), 0, value)


def _file_of(kind: type) -> str:
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""

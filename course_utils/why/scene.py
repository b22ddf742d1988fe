"""What is left after an error: the user's frames, the tensors that the engine was given, and the names of both
(``Scene``).
"""

import contextlib
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import NOWHERE, Site, is_user_file
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.steps import is_users_class, steps
from course_utils.graph.storages import storages_of
from course_utils.holders.lines import users_files
from course_utils.holders.roots import users_roots
from course_utils.holders.search import Root, Search
from course_utils.holders.ways import name_of
from course_utils.why.frames import entries_of, frame_at, given_to_backward, running
from course_utils.why.source import is_cell

_HELD = ("_parameters", "_buffers", "_modules")
"""Where a module keeps what its user reaches by name."""

_SECONDS = 0.15
"""So long may the search for names take."""


class Named(NamedTuple):
    """A tensor, and what the user calls it; ``where`` is the function whose variable it is, or ""."""

    name: str
    tensor: torch.Tensor
    where: str


class Scene:
    """All there is to look at. Nothing is changed, and none of the user's code is run.

    Args:
        error: the exception; None where a silence is to be explained.
        tensors: the tensors that were asked about.
        caller: the frame that asks, where there was no error.
        recording: whether recording is on where it was asked.

    Attributes:
        frames: the user's, innermost first.
        roots: the tensors whose graphs count.
        back: the user's line that called backward; where none did, the one that raised.
    """

    def __init__(
        self, error: BaseException | None = None, tensors: tuple[torch.Tensor, ...] = (),
        caller: FrameType | None = None, recording: bool = True,
    ) -> None:  # fmt: skip
        self.error, self.recording = error, recording
        self.traceback = error.__traceback__ if error is not None else None
        entries = list(entries_of(self.traceback))
        users = [entry for entry in entries if is_user_file(entry.tb_frame.f_code.co_filename)]
        self.frames = tuple(frame_at(entry) for entry in reversed(users))
        if error is None:
            self.frames = tuple(running(caller))
        self.back = self._back(entries)
        self._spaces = [frame.space for frame in self.frames]
        self.roots = (*tensors, *given_to_backward([entry.tb_frame for entry in entries]))
        self._named: list[Named] | None = None

    @property
    def here(self) -> Site:
        """The user's line that raised."""
        return self.frames[0].site if self.frames else NOWHERE

    def _back(self, entries: list[TracebackType]) -> Site:
        site = NOWHERE
        for entry in entries:
            code = entry.tb_frame.f_code
            if is_user_file(code.co_filename):
                site = Site(code.co_filename, entry.tb_lineno, code.co_qualname)
            elif code.co_name in ("backward", "grad") and site.file:
                return site
        return site

    @property
    def message(self) -> str:
        return str(self.error)

    def named(self) -> list[Named]:
        """The user's tensors by name: of the frames, innermost first, then of modules. Found once."""
        if self._named is None:
            looking = Search((0,), self._insides(), graphs=False)
            with contextlib.suppress(Exception):  # what a user's objects do when they are looked at
                looking.run(self._frame_roots(), _SECONDS)
                looking.run(users_roots(), _SECONDS)  # a large program's modules must not keep the frames waiting
            self._named = []
            for path in looking.tensors():
                if not _is_shells(path.root.name):
                    self._named.append(Named(name_of(path), path.things[-1], path.root.where))
        return self._named

    def _insides(self) -> list[int]:
        """By ``id``, what a library's module keeps for itself, such as a list of its parameters: no name for them."""
        return [
            id(value)
            for _, module in self.objects(torch.nn.Module)
            if not is_users_class(type(module))
            for name, value in _own(module).items()
            if name.startswith("_") and name not in _HELD
        ]

    def _frame_roots(self) -> Iterator[Root]:
        for frame in self.frames:
            for name, value in frame.variables.items():
                if not name.startswith("__") and not isinstance(value, ModuleType):
                    where = "" if frame.site.function == "<module>" else frame.site.function
                    yield Root("local" if where else "global", name, where, frame.site.file, 0, value)

    def name(self, tensor: torch.Tensor) -> str:
        """What the user calls a tensor; "" where no variable refers to it."""
        return next((named.name for named in self.named() if named.tensor is tensor), "")

    def names_on(self, storage: torch.UntypedStorage) -> list[Named]:
        """The user's tensors that share a memory."""
        wanted = storage._cdata
        return [one for one in self.named() if any(own._cdata == wanted for own in storages_of(one.tensor))]

    def value(self, text: str, more: Mapping[str, Any] | None = None) -> Any:
        """What a name refers to in the user's frames, innermost first; attributes are followed, nothing is called.

        Args:
            more: variables that come before those of the frames.
        """
        first, *rest = re.findall(r"[^.\[\]]+", text)
        for variables in (
            more or {},
            *(frame.variables for frame in self.frames),
            *(frame.space for frame in self.frames),
        ):
            if first in variables:
                found = variables[first]
                for name in rest:
                    found = _attribute(found, name)
                return found
        return None

    def objects(self, kind: type) -> list[tuple[str, Any]]:
        """The user's objects of a class, by the name of the variable or attribute; containers are not entered."""
        found: dict[int, tuple[str, Any]] = {}
        for root in chain(self._frame_roots(), users_roots()):
            if isinstance(root.value, kind):
                found.setdefault(id(root.value), (root.name, root.value))
            for edge, value in steps(root.value) if is_users_class(type(root.value)) else ():
                if edge.kind == "attribute" and isinstance(value, kind):
                    found.setdefault(id(value), (f"{root.name}.{edge.name}", value))
        return list(found.values())

    @functools.cached_property
    def files(self) -> list[str]:
        """The user's files: those that the error came through, then those of modules that they use, then cells."""
        found = [frame.site.file for frame in self.frames]
        spaces = list(self._spaces)
        while spaces:
            for value in list(spaces.pop().values()):
                named = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
                module = sys.modules.get(named)
                file = getattr(module, "__file__", None)
                if isinstance(file, str) and file not in found and is_user_file(file):
                    found.append(file)
                    spaces.append(vars(module))
        return list(dict.fromkeys([*found, *filter(is_cell, users_files())]))

    @functools.cached_property
    def layers(self) -> dict[str, str]:
        """The classes of the user's layers, by the name of the attribute or variable that holds each."""
        return {name: type(layer).__name__ for name, layer in self._every_layer()}

    @functools.cached_property
    def inplace(self) -> list[str]:
        """The names of those that edit what they are given."""
        return [name for name, layer in self._every_layer() if edits_its_input(layer)]

    def _every_layer(self) -> Iterator[tuple[str, torch.nn.Module]]:
        for own, module in self.objects(torch.nn.Module):
            yield own.rpartition(".")[2], module
            yield from layers_of(module)

    @functools.cached_property
    def nodes(self) -> list[Any]:
        """The nodes behind the roots, each once."""
        return list(dict.fromkeys(node for root in self.roots for node in nodes_behind(root)))


def _module_of(value: Any) -> str:
    """The module in which a function, a class or an object's class was written."""
    named = value if isinstance(value, (type, FunctionType)) else type(value)
    return str(named.__module__)


def _own(thing: Any) -> dict[str, Any]:
    """An object's own attributes, whatever its class says."""
    try:
        return object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}


def layers_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """The layers inside a module, by the last part of their names, in their order; no method of theirs is called."""
    for name, layer in (_own(module).get("_modules") or {}).items():
        if isinstance(layer, torch.nn.Module):
            yield name, layer
            yield from layers_of(layer)


def parameters_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters of a module and of the layers inside it."""
    every = (module, *(layer for _, layer in layers_of(module)))
    return [one for layer in every for one in (_own(layer).get("_parameters") or {}).values() if one is not None]


def edits_its_input(layer: torch.nn.Module) -> bool:
    """Whether a layer was made with ``inplace=True``."""
    return _own(layer).get("inplace") is True


def _attribute(thing: Any, name: str) -> Any:
    """An attribute that is there, past properties and ``__getattr__`` of the user's; a method as its function."""
    own = _own(thing)
    for held in (own, *(own.get(place) or {} for place in _HELD)):
        if name in held:
            return held[name]
    return next((vars(kind)[name] for kind in type(thing).__mro__ if callable(vars(kind).get(name))), None)


def _is_shells(name: str) -> bool:
    """Whether a variable is IPython's own: ``_``, ``Out``."""
    return name in ("In", "Out", "_oh", "_dh") or not name.strip("_i0123456789")

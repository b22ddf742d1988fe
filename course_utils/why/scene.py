"""What is left after an error: the user's frames, the tensors that the engine was given, and the names of both
(``Scene``).
"""

import ast
import contextlib
import functools
import re
from collections.abc import Iterator
from itertools import chain
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import NOWHERE, Site, is_user_file
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.steps import is_users_class, local_variables, steps
from course_utils.graph.storages import storages_of
from course_utils.holders.find import users_roots
from course_utils.holders.search import Path, Root, Search
from course_utils.source.statements import parsed

_GIVEN = ("t_outputs", "outputs", "tensors")
"""Variables of torch's frames that hold what backward was called on."""

HELD = ("_parameters", "_buffers", "_modules")
"""Where a module keeps what its user reaches by name."""

_SECONDS = 0.15
"""So long may the search for names take."""


class Frame(NamedTuple):
    """A user's function that the error came through, or that is running."""

    variables: dict[str, Any]
    site: Site
    expression: ast.expr | None  # the part of the line that was being worked out
    space: dict[str, Any]  # the variables of its module


class Named(NamedTuple):
    """A tensor, and what the user calls it."""

    name: str
    tensor: torch.Tensor


class Scene:
    """All there is to look at. Nothing is changed, and none of the user's code is run.

    Args:
        error: the exception; None where a silence is to be explained.
        tensors: the tensors that were asked about.
        caller: the frame that asks, where there was no error.
        recording: whether recording is on where it was asked.

    Attributes:
        entries: the traceback's, outermost first.
        frames: the user's, innermost first.
        roots: the tensors whose graphs count.
        back: the user's line that called backward; where none did, the one that raised.
    """

    def __init__(
        self, error: BaseException | None = None, tensors: tuple[torch.Tensor, ...] = (),
        caller: FrameType | None = None, recording: bool = True,
    ) -> None:  # fmt: skip
        self.error, self.recording = error, recording
        self.entries = list(_entries(error.__traceback__ if error is not None else None))
        users = [one for one in self.entries if is_user_file(one.tb_frame.f_code.co_filename)]
        self.frames = tuple(_frame(one.tb_frame, one.tb_lineno, one.tb_lasti) for one in reversed(users))
        if error is None:
            self.frames = tuple(_running(caller))
        self.back = self._back()
        self.roots = (*tensors, *self._given_to_backward())

    @property
    def here(self) -> Site:
        """The user's line that raised."""
        return self.frames[0].site if self.frames else NOWHERE

    @property
    def message(self) -> str:
        return str(self.error)

    def _back(self) -> Site:
        site = NOWHERE
        for entry in self.entries:
            code = entry.tb_frame.f_code
            if is_user_file(code.co_filename):
                site = Site(code.co_filename, entry.tb_lineno, code.co_qualname)
            elif code.co_name in ("backward", "grad") and site.file:
                return site
        return site

    def in_torch(self, name: str) -> list[Any]:
        """What a variable of PyTorch's own functions on the error's way refers to, outermost first."""
        frames = [entry.tb_frame for entry in self.entries]
        found = [local_variables(one).get(name) for one in frames if not is_user_file(one.f_code.co_filename)]
        return [value for value in found if value is not None]

    def _given_to_backward(self) -> Iterator[torch.Tensor]:
        for value in chain.from_iterable(map(self.in_torch, _GIVEN)):
            for one in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(one, torch.Tensor):
                    yield one

    @functools.cached_property
    def named(self) -> tuple[Named, ...]:
        """The user's tensors by name: of the frames, innermost first, then of modules."""
        looking = Search((0,), self._insides(), graphs=False)
        with contextlib.suppress(Exception):  # what a user's objects do when they are looked at
            looking.run(self._frame_roots(), _SECONDS)
            looking.run(users_roots(), _SECONDS)  # a large program's modules must not keep the frames waiting
        found = ((_written(path), path.things[-1]) for path in looking.tensors() if not _is_shells(path.root.name))
        return tuple(Named(name, tensor) for name, tensor in found if name)

    def _insides(self) -> list[int]:
        """By ``id``, what a library's module keeps for itself, such as a list of its parameters: no name for them."""
        return [
            id(value)
            for _, module in self.objects(torch.nn.Module)
            if not is_users_class(type(module))
            for name, value in own(module).items()
            if name.startswith("_") and name not in HELD
        ]

    def _frame_roots(self) -> Iterator[Root]:
        for frame in self.frames:
            for name, value in frame.variables.items():
                if not name.startswith("__") and not issubclass(type(value), ModuleType):
                    where = "" if frame.site.function == "<module>" else frame.site.function
                    yield Root("local" if where else "global", name, where, frame.site.file, 0, value)

    def name(self, tensor: torch.Tensor) -> str:
        """What the user calls a tensor: in the question, or as a variable; "" where no variable refers to it."""
        asked = self.frames[0].expression if self.error is None and self.frames else None
        for one in asked.args if isinstance(asked, ast.Call) else ():
            if isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)) and self.value(ast.unparse(one)) is tensor:
                return ast.unparse(one)
        return next((named.name for named in self.named if named.tensor is tensor), "")

    def names_on(self, tensor: torch.Tensor) -> list[Named]:
        """The user's tensors that share a tensor's memory; none inside of a transform, where it has none."""
        with contextlib.suppress(NotImplementedError):
            wanted = {storage._cdata for storage in storages_of(tensor)}
            return [one for one in self.named if any(own._cdata in wanted for own in storages_of(one.tensor))]
        return []

    def value(self, text: str) -> Any:
        """What a name refers to in the user's frames, innermost first; parts are followed, nothing is called."""
        first, *rest = re.findall(r"[^.\[\]\"']+", text)
        spaces = (*(frame.variables for frame in self.frames), *(frame.space for frame in self.frames))
        found = next((variables[first] for variables in spaces if first in variables), None)
        for name in rest:
            found = _part(found, name)
        return found

    def objects(self, kind: type) -> list[tuple[str, Any]]:
        """The user's objects of a class, by the name of the variable or attribute; containers are not entered."""
        found: dict[int, tuple[str, Any]] = {}
        for root in chain(self._frame_roots(), users_roots()):
            if issubclass(type(root.value), kind):
                found.setdefault(id(root.value), (root.name, root.value))
            for edge, value in steps(root.value) if is_users_class(type(root.value)) else ():
                if edge.kind == "attribute" and issubclass(type(value), kind):
                    found.setdefault(id(value), (f"{root.name}.{edge.name}", value))
        return list(found.values())

    @functools.cached_property
    def nodes(self) -> list[Any]:
        """The nodes behind the roots, each once."""
        return list(dict.fromkeys(node for root in self.roots for node in nodes_behind(root)))


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _running(frame: FrameType | None) -> Iterator[Frame]:
    """The user's functions that are running, from a frame outwards."""
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            yield _frame(frame, frame.f_lineno, frame.f_lasti)
        frame = frame.f_back


def _frame(frame: FrameType, line: int | None, instruction: int) -> Frame:
    code = frame.f_code
    site = Site(code.co_filename, line or 0, code.co_qualname)
    return Frame(local_variables(frame), site, _expression(code, instruction), frame.f_globals)


def _expression(code: CodeType, instruction: int) -> ast.expr | None:
    """The part of a line that is being worked out, by the place that the compiler noted for the instruction."""
    tree, positions = parsed(code.co_filename), list(code.co_positions())
    place = positions[instruction // 2] if instruction // 2 < len(positions) else None
    for one in ast.walk(tree) if tree is not None else ():
        if isinstance(one, ast.expr) and place == (one.lineno, one.end_lineno, one.col_offset, one.end_col_offset):
            return one
    return None


def _written(path: Path) -> str:
    """The name of what a way ends at, as one would write it: ``net.fc.weight``, ``states[0]``; "" where none is."""
    name, member = path.root.name, False
    for edge in path.edges:
        member_before, member = member, edge.kind == "attribute" and edge.name in HELD
        if member:
            continue
        if edge.kind == "attribute" or (member_before and not str(edge.name).isdigit()):
            name += f".{edge.name}"
        elif edge.kind == "item" and isinstance(edge.name, (int, str)):
            name += f"[{int(edge.name) if member_before else edge.name!r}]"
        else:
            return ""
    return name


def own(thing: Any) -> dict[str, Any]:
    """An object's own attributes, whatever its class says."""
    try:
        return object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}


def modules_in(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """A module and those inside it, in their order; no method of theirs is called."""
    yield module
    for layer in (own(module).get("_modules") or {}).values():
        if isinstance(layer, torch.nn.Module):
            yield from modules_in(layer)


def parameters_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters of a module and of those inside it."""
    every = (one for layer in modules_in(module) for one in (own(layer).get("_parameters") or {}).values())
    return [one for one in every if one is not None]


def _part(thing: Any, name: str) -> Any:
    """An attribute that is there, or an item; past properties and ``__getattr__`` of the user's."""
    if type(thing) in (list, tuple, dict):
        with contextlib.suppress(LookupError, ValueError):
            return thing[name] if type(thing) is dict else thing[int(name)]
    mine = own(thing)
    return next((held[name] for held in (mine, *(mine.get(place) or {} for place in HELD)) if name in held), None)


def _is_shells(name: str) -> bool:
    """Whether a variable is IPython's own: ``_``, ``Out``."""
    return name in ("In", "Out", "_oh", "_dh") or not name.strip("_i0123456789")

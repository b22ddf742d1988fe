"""What is left after an error: the user's frames, the tensors that the engine was given, and the names of both
(``Scene``).
"""

import ast
import contextlib
import functools
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from traceback import walk_tb
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import NOWHERE, Site, is_user_file
from course_utils.graph.recorded import nodes_behind, storages_of
from course_utils.graph.steps import is_users_class, local_variables, steps
from course_utils.holders import users_roots
from course_utils.holders.search import Path, Root, Search
from course_utils.why.log import Log, leaves_behind, tensors_in

_GIVEN = ("t_outputs", "outputs", "tensors")
"""Variables of torch's frames that hold what backward was called on."""

HELD = ("_parameters", "_buffers", "_modules")
"""Where a module keeps what its user reaches by name."""

_SECONDS = 0.15
"""So long may the search for names take."""


class Named(NamedTuple):
    """A tensor, and what the user calls it."""

    name: str
    tensor: torch.Tensor
    variable: Any  # the value of the variable that the name begins with


class Scene:
    """All there is to look at. Nothing is changed, and none of the user's code is run.

    Args:
        log: what a watch has seen.
        error: the exception; None where a silence is to be explained.
        tensors: the tensors that were asked about.

    Attributes:
        frames: those that the error came through, outermost first.
        here: the user's line that raised.
        back: the user's line that called backward; where none did, the one that raised.
        roots: the tensors whose graphs count.
        recording: whether recording is on where it was asked.
    """

    def __init__(self, log: Log, error: BaseException | None = None, tensors: tuple[torch.Tensor, ...] = ()) -> None:
        self.log, self.error, self.message, self.recording = log, error, str(error), torch.is_grad_enabled()
        self._traceback = error.__traceback__ if error is not None else None
        self.frames = [frame for frame, _ in walk_tb(self._traceback)]
        self.here = self.back = NOWHERE
        self._variables, called = dict[str, Any](), False
        for frame, line in walk_tb(self._traceback):
            code = frame.f_code
            if is_user_file(code.co_filename):
                self.here = Site(code.co_filename, line, code.co_qualname)
                self.back = self.back if called else self.here
                self._variables = frame.f_globals | local_variables(frame)
            elif code.co_name in ("backward", "grad"):
                called = self.here != NOWHERE
        for file, line, function in re.findall(r'^\s*File "(.+?)", line (\d+), in (.+)$', self.message, re.MULTILINE):
            if is_user_file(file):  # of another process
                self.here, self._variables = Site(file, int(line), function), {}
        given = (one for value in chain.from_iterable(map(self.in_torch, _GIVEN)) for one in tensors_in([value]))
        self.roots = (*tensors, *given)

    def in_torch(self, name: str) -> list[Any]:
        """What a variable of PyTorch's own functions on the error's way refers to, outermost first."""
        frames = (frame for frame in self.frames if not is_user_file(frame.f_code.co_filename))
        return [value for frame in frames if (value := local_variables(frame).get(name)) is not None]

    @functools.cached_property
    def named(self) -> list[Named]:
        """The user's tensors by name: of the frames, innermost first, then of modules."""
        looking = Search((0,), (id(self.error),), graphs=False)
        roots = list(self._roots())
        with contextlib.suppress(Exception):  # what a user's objects do when they are looked at
            for kind in ("local", "global"):  # a large program's modules must not keep the frames waiting
                looking.run((root for root in roots if root.kind == kind), _SECONDS)
        of_shell = {"In", "Out", "_oh", "_dh", *(root.name for root in roots if not root.name.strip("_i0123456789"))}
        found = ((_written(path), path) for path in looking.tensors() if path.root.name not in of_shell)
        return [Named(name, path.things[-1], path.root.value) for name, path in found if name]

    def _roots(self) -> Iterator[Root]:
        """The user's variables, those of the function that raised first."""
        for name, value in self._variables.items():
            if not name.startswith("__"):
                yield Root("local", name, "", "", 0, value)
        yield from users_roots(self._traceback)

    def name(self, tensor: torch.Tensor | None) -> str:
        """What the user calls a tensor; "" where no variable refers to it."""
        return next((named.name for named in self.named if named.tensor is tensor), "")

    def names(self, tensors: Iterable[torch.Tensor]) -> list[str]:
        """The names of those that have one."""
        return list(dict.fromkeys(filter(None, map(self.name, tensors))))

    def names_on(self, tensor: torch.Tensor) -> list[Named]:
        """The user's tensors that share a tensor's memory."""
        wanted = {storage._cdata for storage in storages_of(tensor)}
        return [one for one in self.named if any(own._cdata in wanted for own in storages_of(one.tensor))]

    def named_in(self, statement: ast.stmt | None) -> list[Named]:
        """The tensors that a statement of the function that raised names."""
        nodes = ast.walk(statement) if statement is not None else ()
        words = {ast.unparse(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute))}
        named = [one for one in self.named if one.name in words]
        return [one for one in named if self._variables.get(one.name.partition(".")[0]) is one.variable]

    def objects(self, kind: type) -> list[tuple[str, Any]]:
        """The user's objects of a class, by the name of the variable or attribute; containers are not entered."""
        found: dict[int, tuple[str, Any]] = {}
        for root in self._roots():
            if issubclass(type(root.value), kind):
                found.setdefault(id(root.value), (root.name, root.value))
            for edge, value in steps(root.value) if is_users_class(type(root.value)) else ():
                if edge.kind == "attribute" and issubclass(type(value), kind):
                    found.setdefault(id(value), (f"{root.name}.{edge.name}", value))
        return list(found.values())

    @functools.cached_property
    def nodes(self) -> list[Any]:
        """The nodes behind the roots, each once; those of leaves are not among them."""
        nodes = dict.fromkeys(node for root in self.roots for node in nodes_behind(root))
        return [node for node in nodes if not hasattr(node, "variable")]

    @functools.cached_property
    def leaves(self) -> list[torch.Tensor]:
        """The leaves behind the roots."""
        return [leaf for root in self.roots for leaf in leaves_behind(root)]


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

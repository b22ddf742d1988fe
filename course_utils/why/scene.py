"""What is left after an error: the user's frames, the tensors that the engine was given, their names (``Scene``)."""

import ast
import contextlib
import copy
import functools
import inspect
import re
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain, takewhile
from traceback import walk_tb
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import NOWHERE, Site, is_user_file
from course_utils.graph.recorded import leaves_behind, nodes_behind, storages_of
from course_utils.graph.references import living
from course_utils.graph.steps import local_variables, steps
from course_utils.holders import users_roots
from course_utils.holders.search import Path, Search
from course_utils.holders.ways import inside
from course_utils.record.operations import tensors_in
from course_utils.why.log import Log

_SECONDS = 0.15  # so long may the search for names take
_ABOUT: dict[str, tuple[Any, str]] = {
    "backward": (type(torch.autograd.Function), "backward"), "hook": ((FunctionType, MethodType), ""),
    "block": ((FunctionType, MethodType, torch.nn.Module), "forward"), "tensor": (torch.Tensor, ""),
}  # fmt: skip
"""What an error may be about: classes of what is meant, and its method that counts."""


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
    """

    def __init__(self, log: Log, error: BaseException | None = None, tensors: tuple[torch.Tensor, ...] = ()) -> None:
        self.log, self.error, self.message, self.recording = log, error, str(error), torch.is_grad_enabled()
        self._traceback = error.__traceback__ if error is not None else None
        self.frames = [frame for frame, _ in walk_tb(self._traceback)]  # outermost first
        self.here = self.back = NOWHERE  # the user's line that raised; that called backward, or else the same
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
        given = chain.from_iterable(map(self.in_torch, ("t_outputs", "outputs", "tensors")))  # to backward
        self.roots = (*tensors, *tensors_in(given))  # whose graphs count
        self.asked = list(tensors_in(chain.from_iterable(map(self.in_torch, ("t_inputs", "inputs")))))  # by gradient

    def in_torch(self, name: str) -> list[Any]:
        """What a variable of PyTorch's own functions on the error's way refers to, outermost first."""
        frames = (frame for frame in self.frames if not is_user_file(frame.f_code.co_filename))
        return [value for frame in frames if (value := local_variables(frame).get(name)) is not None]

    @functools.cached_property
    def _ways(self) -> list[tuple[str, Path]]:
        """The ways to the user's tensors, modules and optimizers, by name."""
        looking, roots = Search((0,), (id(self.error),), graphs=False), list(users_roots(self._traceback))
        with contextlib.suppress(Exception):  # what a user's objects do when they are looked at
            for kind in ("local", "global"):  # a large program's modules must not keep the frames waiting
                looking.run((root for root in roots if root.kind == kind), _SECONDS)
        of_shell = {"In", "Out", "_oh", "_dh", *(root.name for root in roots if not root.name.strip("_i0123456789"))}
        ways = looking.met(torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
        spelt = (path for path in ways if all(edge.kind in ("attribute", "item") for edge in path.edges))
        return [(path.root.name + inside(path), path) for path in spelt if path.root.name not in of_shell]

    @functools.cached_property
    def named(self) -> list[Named]:
        """The user's tensors, by name."""
        ways = ((name, path.things[-1], path.root.value) for name, path in self._ways)
        return [Named(*way) for way in ways if issubclass(type(way[1]), torch.Tensor)]

    def name(self, thing: Any) -> str:
        """What the user calls a tensor, a module or an optimizer; "" where no variable leads to it."""
        return next((name for name, path in self._ways if path.things[-1] is thing), "")

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
        words = [ast.unparse(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))]
        held = {f"[{name}]": f"[{one!r}]" for name, one in self._variables.items() if type(one) in (int, str)}
        words = [re.sub(r"\[\w+\]", lambda index: held.get(index[0], index[0]), word) for word in words]
        named = [one for one in self.named if one.name.replace('"', "'") in words]
        return [one for one in named if self._variables.get(one.name.partition(".")[0]) is one.variable]

    def objects(self, kind: type) -> list[tuple[str, Any]]:
        """The user's objects of a class that are in no other one of it, by name."""
        ways = ((name, path.things) for name, path in self._ways if issubclass(type(path.things[-1]), kind))
        return [(name, way[-1]) for name, way in ways if not any(issubclass(type(it), kind) for it in way[:-1])]

    @functools.cached_property
    def groups(self) -> list[tuple[str, torch.optim.Optimizer, dict[str, Any]]]:
        """The groups of every optimizer, with its name."""
        return [(name, one, group) for name, one in self.objects(torch.optim.Optimizer) for group in one.param_groups]

    def in_hand(self, about: str, most: int = 500) -> list[tuple[str, Site]]:
        """What of the user's an error is ``about``, a word of its page, by name and line: what variables of PyTorch's
        functions on its way lead to first; or each hook, or Function of the graph, that has the name in the message.
        """
        files = (torch.__path__[0], copy.__file__)
        inside = takewhile(lambda frame: frame.f_code.co_filename.startswith(files), reversed(self.frames))
        things, kinds = list[Any](inside), _ABOUT[about]
        for thing in things:  # grows
            if (one := self._of_users(thing, *kinds)) is not None:
                return [one]
            if len(things) < most and not issubclass(type(thing), (torch.Tensor, torch.nn.Module)):
                things += [value for _, value in steps(thing)]
        hooks = living(lambda kind: kind is OrderedDict) if about == "hook" else []
        classes = (getattr(type(node), "_forward_cls", None) for node in self.nodes)
        things = [*classes, *(one for some in hooks for one in some.values())]
        said = re.search(r"unction (\w+)Backward|hook '(.+)'", self.message)
        every = [*dict.fromkeys(one for thing in things if (one := self._of_users(thing, *kinds)) is not None)]
        every = [one for one in every if said is None or {*said.groups()} & {*one[0].split(".")}]
        return every if len(every) <= 4 else []  # one of so many is not worth saying

    def _of_users(self, thing: Any, kinds: Any, method: str) -> tuple[str, Site] | None:
        """A thing's name, and the line that begins its method, or made it; None where it is none of the user's."""
        if not issubclass(type(thing), kinds):
            return None
        name, site = self.name(thing), NOWHERE
        code = getattr(inspect.unwrap(getattr(thing, method, thing)), "__code__", None)
        if code is not None and is_user_file(code.co_filename):
            lines = [Site(code.co_filename, code.co_firstlineno + below, code.co_qualname) for below in range(9)]
            site = next((one for one in lines if f"def {code.co_name}" in one.source), lines[0])  # below decorators
            name = name or code.co_qualname.rpartition("<locals>.")[2]
        elif kinds is torch.Tensor:
            variables = {id(root.value): root.name for root in users_roots(self._traceback)}
            start = [self.name(it) or variables.get(id(it), "") for it in self.in_torch("x")[:1]]  # of what is copied
            if not (name and name.startswith(*start or ("",))):  # it is better known by another name
                keys = [str(key) for key in self.in_torch("key") if key != "_modules"]
                name = ".".join(filter(None, (*start, *keys))) or name
            site = self.log.node(thing.grad_fn).site
        return (name, site) if name else None

    @functools.cached_property
    def nodes(self) -> list[Any]:
        """The nodes behind the roots, each once; those of leaves are not among them."""
        nodes = dict.fromkeys(node for root in self.roots for node in nodes_behind(root))
        return [node for node in nodes if not hasattr(node, "variable")]

    @functools.cached_property
    def leaves(self) -> list[torch.Tensor]:
        """The leaves behind the roots."""
        return [leaf for root in self.roots for leaf in leaves_behind(root)]

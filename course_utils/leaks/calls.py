"""When a call of the user's model begins, and from which place (``Calls``)."""

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from course_utils.base.torch_private import current_graph_task
from course_utils.base.user_code import Site, user_site

BACKWARD_PASS = "backward pass"
"""What is counted in place of calls where a loop calls no module."""

LOOP = "round of a loop"
"""What is counted in place of calls where nothing is called and no gradient is computed."""

Place = tuple[Site, bool, bool]
"""Where a call comes from: the user's line, whether gradients are recorded there, whether the module is training."""


class Calls:
    """Tells each time that an outermost module with parameters is called, in whichever thread.

    Where a loop calls several modules in turn, such as an encoder and a decoder, one round of them is one call: it
    begins when a module is called that was called already since the last one began, or one that was made since then, of
    the same class; or that is called after a backward pass. Recomputation during a backward pass is no call, and
    neither is a module without parameters, such as a loss.

    Args:
        begins: called as a call begins, with the module, its positional arguments and the place.
        backward_ran: whether a backward pass has run since the last one began.
    """

    def __init__(
        self, begins: Callable[[torch.nn.Module, tuple, Place], None], backward_ran: Callable[[], bool]
    ) -> None:
        self._begins, self._backward_ran = begins, backward_ran
        self._here = _InThread()
        self._has_parameters: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()
        self._rounds = 0
        self._made_in: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []
        self._wrapped: dict[type, Any] = {}

    def start(self) -> None:
        """Begins to watch, by hooks on every module of the process."""
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
            register_module_parameter_registration_hook(self._made),
            register_module_module_registration_hook(self._made),
        ]
        for kind in list(_below(torch.nn.Module)):
            self._wrap(kind)

    def stop(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for kind, own in self._wrapped.items():
            kind.__call__ = own  # type: ignore[method-assign]
        self._wrapped.clear()

    def _made(self, module: torch.nn.Module, name: str, part: Any) -> None:
        self._made_in[module] = self._rounds
        if type(module) not in self._wrapped:
            for kind in type(module).__mro__:
                self._wrap(kind)

    def _wrap(self, kind: type) -> None:
        """A class with a ``__call__`` of its own, which runs no hooks."""
        own = vars(kind).get("__call__")
        known = kind in self._wrapped or kind is torch.nn.Module or kind.__module__.partition(".")[0] == "torch"
        if own is None or known or not issubclass(kind, torch.nn.Module):
            return

        @functools.wraps(own)
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._before(module, args, sys._getframe(1))
            try:
                return own(module, *args, **kwargs)
            finally:
                self._after(module, args, None)

        self._wrapped[kind] = own
        kind.__call__ = call  # type: ignore[method-assign]

    def _before(self, module: torch.nn.Module, args: Any, frame: FrameType | None = None) -> None:
        if torch.compiler.is_compiling():
            return
        here = self._here
        here.depth += 1
        if here.depth > 1 or current_graph_task() >= 0 or not self._counts(module):
            return
        anew = self._made_in.get(module) == self._rounds and type(module) in here.kinds
        if id(module) in here.round or anew or self._backward_ran():
            here.round.clear()
            here.kinds.clear()
        first = not here.round
        here.round.add(id(module))
        here.kinds.add(type(module))
        if first:
            self._rounds += 1
            site = user_site(frame or sys._getframe(1))
            self._begins(module, args, (site, torch.is_grad_enabled(), module.training))

    def _after(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._here.depth = max(0, self._here.depth - 1)

    def _counts(self, module: torch.nn.Module) -> bool:
        known = self._has_parameters.get(module)
        if known is None:
            known = self._has_parameters[module] = next(module.parameters(), None) is not None
        return known


class _InThread(threading.local):
    """How deep in modules a thread is, and those that it has called since a call began, with their classes."""

    def __init__(self) -> None:
        self.depth = 0
        self.round: set[int] = set()
        self.kinds: set[type] = set()


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)

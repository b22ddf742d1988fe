"""When a call of the user's model begins (``Calls``)."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from course_utils.base.torch_private import current_graph_task

BACKWARD_PASS = "backward pass"
"""What is counted in place of calls where a loop calls no module."""


class Calls:
    """Tells each time that an outermost module with parameters is called, in whichever thread.

    Where a loop calls several modules in turn, such as an encoder and a decoder, one round of them is one call: it
    begins when a module is called that was called already since the last one began, or that is called after a backward
    pass. Recomputation during a backward pass is no call, and neither is a module without parameters, such as a loss.

    Args:
        begins: called as a call begins, with the module and its positional arguments.
        backward_ran: whether a backward pass has run since the last one began.
    """

    def __init__(self, begins: Callable[[torch.nn.Module, tuple], None], backward_ran: Callable[[], bool]) -> None:
        self._begins, self._backward_ran = begins, backward_ran
        self._here = _InThread()
        self._has_parameters: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    def start(self) -> None:
        """Begins to watch, by hooks on every module of the process."""
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]

    def stop(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before(self, module: torch.nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        here = self._here
        here.depth += 1
        if here.depth == 1 and current_graph_task() < 0 and self._counts(module):
            if id(module) in here.round or self._backward_ran():
                here.round.clear()
            first = not here.round
            here.round.add(id(module))
            if first:
                self._begins(module, args)

    def _after(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._here.depth = max(0, self._here.depth - 1)

    def _counts(self, module: torch.nn.Module) -> bool:
        known = self._has_parameters.get(module)
        if known is None:
            known = self._has_parameters[module] = next(module.parameters(), None) is not None
        return known


class _InThread(threading.local):
    """How deep in modules a thread is, and those that it has called since a call began."""

    def __init__(self) -> None:
        self.depth = 0
        self.round: set[int] = set()

"""Sees what becomes of tensors while a program runs, for ``why`` (``watch_why``)."""

import contextlib
import functools
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_utils.base.torch_private import sequence_number
from course_utils.base.user_code import Site, is_user_file, user_site
from course_utils.graph.recorded import nodes_behind
from course_utils.record.operations import OperationWatch, Watcher
from course_utils.record.process import NEW_THREADS, replaced
from course_utils.why.log import Log, Pass, Switch
from course_utils.why.look import decorated
from course_utils.why.seen import MOST_NODES, watcher

_latest: list[Log] = []


def latest_log() -> Log | None:
    """What the latest watch has seen; None where there was none."""
    return _latest[-1] if _latest else None


def forget() -> None:
    """Forgets what the latest watch has seen."""
    _latest.clear()


class watch_why:
    """Inside the block, it is noted which line makes, edits and cuts what, and where the first NaN comes from, so that
    ``why()`` can say so afterwards, of the tensors that the block has met and of no others.

    Example:
        >>> import torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> with watch_why():
        ...     y = (x * 2).detach()
        >>> y.requires_grad
        False

    Limits: operations of the thread that entered are seen, and of those that start later. Of what ``torch.compile``
    made, what it is given and what comes out is seen. What NumPy computes is not seen.
    """

    def __init__(self) -> None:
        self.log = Log()

    def __enter__(self) -> "watch_why":
        _latest[:] = [self.log]
        NEW_THREADS.add(self._in_thread)
        self._told = (
            *((function, self._pass) for function in _BACKWARD),
            *((function, self._switch) for function in _SWITCHES),
            *((function, self._clear) for function in _CLEARING),
        )
        for function, told in self._told:
            function.add(told)
        self._hook = register_optimizer_step_pre_hook(self._step)
        self._watchers = self._for_thread()
        self._mode = OperationWatch.enter(*self._watchers)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._mode.leave(*self._watchers)
        for function, told in self._told:
            function.remove(told)
        self._hook.remove()
        NEW_THREADS.remove(self._in_thread)
        self.log.ended = time.monotonic()

    def _for_thread(self) -> tuple[Watcher, Watcher]:
        return self.log.recorder.watcher, watcher(self.log)

    @contextlib.contextmanager
    def _in_thread(self) -> Iterator[None]:
        with OperationWatch(*self._for_thread()):
            yield

    def _pass(self, backward: Callable, *args: Any, **kwargs: Any) -> Any:
        """Runs a backward pass, and notes what it goes through."""
        __tracebackhide__ = True  # a notebook shows the error's way without it
        log = self.log
        given: Any = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        roots = [given] if isinstance(given, torch.Tensor) else list(given)
        every = (node for root in roots for node in nodes_behind(root))
        nodes = list(dict.fromkeys(itertools.islice(every, MOST_NODES)))
        leaves = [node.variable for node in nodes if hasattr(node, "variable")]
        keeps = kwargs.get("retain_graph")
        one = Pass(
            _stack(sys._getframe(1)),
            log.tick(),
            sequence_number(),
            frozenset(root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None),
            frozenset((node.name(), node._sequence_nr()) for node in nodes if not hasattr(node, "variable")),
            bool(kwargs.get("create_graph")) if keeps is None else bool(keeps),
            frozenset(number for leaf in leaves for number in log.numbers_of(leaf)),
        )
        if any(root.numel() == 1 for root in roots):
            one.bad = next((bad for root in roots if (bad := log.not_finite(root))), None)
            log.first_bad = log.first_bad or one.bad
        del nodes, leaves, every
        log.running.append(one)
        try:
            return backward(*args, **kwargs)
        except BaseException:
            one.failed = True
            raise
        finally:
            log.running.remove(one)
            log.passes.append(one)

    def _switch(self, switch: Callable, *args: Any, **kwargs: Any) -> Any:
        """Switches recording on or off, and notes who switched it off."""
        before = torch.is_grad_enabled()
        done = switch(*args, **kwargs)
        if before and not torch.is_grad_enabled():
            self.log.switches[threading.get_ident()] = _who(sys._getframe(1))
        return done

    def _clear(self, clear: Callable, owner: Any, *args: Any, **kwargs: Any) -> Any:
        """Lets an optimizer or a module clear gradients, and notes where."""
        self.log.note(owner, "zero_grad", user_site(sys._getframe(1)))
        return clear(owner, *args, **kwargs)

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Notes where an optimizer steps."""
        self.log.note(optimizer, "step", user_site(sys._getframe(1)))


def _stack(frame: FrameType | None) -> tuple[Site, ...]:
    """The user's lines that are running, from a frame outwards."""
    found = []
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            found.append(user_site(frame))
        frame = frame.f_back
    return tuple(found)


def _who(frame: FrameType | None) -> Switch:
    """Who switches recording off, from a frame outwards."""
    site = user_site(frame)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if (function := decorated(frame)) is not None:
            return Switch("decorator", function)
        frame = frame.f_back
    return Switch("block", site)


def _telling(plain: Callable, listeners: list[Callable]) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        run = plain
        for listener in tuple(listeners):
            run = functools.partial(listener, run)
        return run(*args, **kwargs)

    return call


_BACKWARD = [replaced(torch.autograd, name, _telling) for name in ("backward", "grad")]
_SWITCHES = [
    replaced(torch.set_grad_enabled, "__init__", _telling),
    replaced(torch.inference_mode, "__enter__", _telling),
]
_CLEARING = [replaced(owner, "zero_grad", _telling) for owner in (torch.optim.Optimizer, torch.nn.Module)]

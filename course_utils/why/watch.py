"""Sees what becomes of tensors while a program runs, for ``why`` (``watch_why``)."""

import functools
import itertools
import sys
import threading
import time
from collections.abc import Callable
from traceback import walk_stack
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from course_utils.base.torch_private import sequence_number
from course_utils.base.user_code import NOWHERE, Site, is_user_file, user_site
from course_utils.graph.recorded import MOST_NODES, leaves_behind, nodes_behind
from course_utils.graph.steps import local_variables
from course_utils.record import NEW_THREADS, Shared, replaced
from course_utils.record.operations import OperationWatch, tensors_in
from course_utils.why.log import Cut, Edited, Log, Pass, kind_of_bad
from course_utils.why.seen import Witness

latest = [Log()]  # what the latest watch has seen; nothing where there was none


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
        self.log, self._stepped = Log(), 0  # how many passes had ended at the latest step

    def __enter__(self) -> "watch_why":
        latest[0] = self.log
        self._told: list[tuple[Shared, Callable]] = [(function, getattr(self, told)) for function, told in _TOLD]
        self._told.append((NEW_THREADS, lambda: OperationWatch(self.log.recorder.watcher, Witness(self.log))))
        for function, told in self._told:
            function.add(told)
        self._watchers = self.log.recorder.watcher, Witness(self.log)
        self._mode = OperationWatch.enter(*self._watchers)
        self._hook = register_optimizer_step_post_hook(self._step)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._hook.remove()
        self._mode.leave(*self._watchers)
        for function, told in self._told:
            function.remove(told)
        self.log.ended = time.monotonic()

    def _pass(self, backward: Callable, *args: Any, **kwargs: Any) -> Any:
        """Runs a backward pass, and notes what it goes through."""
        __tracebackhide__ = True  # a notebook shows the error's way without it
        log, keeps, frame = self.log, kwargs.get("retain_graph"), sys._getframe(1)
        roots = list(tensors_in([args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))]))
        every = itertools.chain.from_iterable(map(nodes_behind, roots))
        nodes = (node for node in itertools.islice(every, MOST_NODES) if not hasattr(node, "variable"))
        leaves = [leaf for root in roots for leaf in leaves_behind(root)]
        one = Pass(
            user_site(frame), log.stack(frame), sequence_number(),
            roots=frozenset(root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None),
            nodes=frozenset((node.name(), node._sequence_nr()) for node in nodes),
            keeps=bool(kwargs.get("create_graph") if keeps is None else keeps),
            leaves=log.numbers_of(leaves),
            bad=next((bad for root in roots if root.numel() == 1 and (bad := log.of(root, "bad"))), None),
        )  # fmt: skip
        del roots, every, nodes, frame
        log.running.append(one)
        try:
            done = backward(*args, **kwargs)
            one.filled = log.numbers_of(leaf for leaf in leaves if leaf.grad is not None)
            if one.bad is not None and one.bad.backward:  # it may have been left out, as norm's backward does at zero
                given = tensors_in((done, *(leaf.grad for leaf in leaves)))
                arrived = [log.of(it, "bad") or one.bad for it in given if kind_of_bad(it)]
                one.bad = max(arrived, key=lambda bad: bad.what, default=None)
            return done
        except BaseException:
            one.failed, log.broken = True, one
            raise
        finally:
            log.running.remove(one)
            log.passes.append(one)
            log.count += 1
            if log.first_bad is None or (one.bad is not None and log.first_bad.what == "inf"):
                log.first_bad = one.bad

    def _step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Notes that an optimizer has edited its parameters."""
        log, site, stack = self.log, user_site(sys._getframe(1)), self.log.stack(sys._getframe(1))
        ones = [one for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        since = itertools.islice(reversed(log.passes), log.count - self._stepped)
        leaves = frozenset().union(*(one.leaves for one in since)) - log.numbers_of(ones)
        ended, self._stepped = Cut("step", site, how="step", leaves=leaves), log.count
        for one in ones:
            log.edit(one, Edited("step", site, ended, stack, one._version, steps=True))

    def _switch(self, switch: Callable, *args: Any, **kwargs: Any) -> Any:
        """Switches recording on or off, and notes who switched it off."""
        before = torch.is_grad_enabled()
        done = switch(*args, **kwargs)
        now = torch.is_grad_enabled()
        if before or now:
            self.log.switches[threading.get_ident()] = NOWHERE if now else _who(sys._getframe(1))
        return done


def _who(frame: FrameType | None) -> Site:
    """The line that switches recording off, from a frame outwards: of a block, a call or a decorator."""
    for one, _ in walk_stack(frame):
        code = getattr(local_variables(one).get("func"), "__code__", None)
        if is_user_file(one.f_code.co_filename):
            break
        if one.f_code.co_filename.endswith("_contextlib.py") and code is not None:
            return Site(code.co_filename, code.co_firstlineno, code.co_qualname)
    return user_site(frame)


def _telling(plain: Callable, listeners: list[Callable]) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        calls = functools.reduce(lambda run, listener: functools.partial(listener, run), tuple(listeners), plain)
        return calls(*args, **kwargs)

    return call


_TOLD = [
    (replaced(owner, name, _telling), told)
    for owner, name, told in (
        (torch.autograd, "backward", "_pass"), (torch.autograd, "grad", "_pass"),
        (torch.set_grad_enabled, "__init__", "_switch"), (torch.inference_mode, "__enter__", "_switch"),
    )
]  # fmt: skip
"""What is called through a watch: a function, and the watch's method that calls it."""

"""Sees what becomes of tensors while a program runs, for ``why`` (``watch_why``)."""

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import torch

from course_utils.base.torch_private import current_autograd_node, current_graph_task, sequence_number
from course_utils.base.user_code import Site, outside, user_site
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.report import operation_name
from course_utils.record.operations import OperationWatch, Run, Watcher
from course_utils.record.process import NEW_THREADS, UNCOMPILED, replaced
from course_utils.why.log import Call, Cut, Edited, Log, Memory, Nodes, NotFinite, Pass, Recorded
from course_utils.why.look import kind_of_bad, range_of, tensors_in, version_of

_MOST_NODES = 30_000
"""Of a larger graph, backward is not looked into."""

_MOST_BAD = 2000
"""After so many results that are not finite, nobody looks for more."""

_OPTIMIZERS = f"{torch.__path__[0]}/optim/"

_latest: list[Log] = []


def latest_log() -> Log | None:
    """What the latest watch has seen; None where there was none."""
    return _latest[-1] if _latest else None


def forget() -> None:
    """Forgets what the latest watch has seen."""
    _latest.clear()


class watch_why:
    """Inside the block, it is noted which line makes, edits and cuts what, and where the first NaN comes from, so that
    ``why()`` can say so afterwards.

    Example:
        >>> import torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> with watch_why():
        ...     y = (x * 2).detach()
        >>> y.requires_grad
        False

    Limits: operations of the thread that entered are seen, and of those that start later. What ``torch.compile`` made
    runs uncompiled meanwhile. What NumPy computes is not seen.
    """

    def __init__(self) -> None:
        self.log = Log()
        self._depth = 0

    def __enter__(self) -> "watch_why":
        _latest[:] = [self.log]
        UNCOMPILED.add(self)
        NEW_THREADS.add(self._in_thread)
        for function in _BACKWARD:
            function.add(self._pass)
        self._watchers = self._for_thread()
        self._mode = OperationWatch.enter(*self._watchers)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._mode.leave(*self._watchers)
        for function in _BACKWARD:
            function.remove(self._pass)
        NEW_THREADS.remove(self._in_thread)
        UNCOMPILED.remove(self)

    def _for_thread(self) -> tuple[Watcher, Watcher]:
        return self.log.recorder.watcher, _watcher(self.log)

    @contextlib.contextmanager
    def _in_thread(self) -> Iterator[None]:
        with OperationWatch(*self._for_thread()):
            yield

    def _pass(self, backward: Callable, *args: Any, **kwargs: Any) -> Any:
        """Runs a backward pass, and notes what it goes through."""
        if self._depth:
            return backward(*args, **kwargs)
        log = self.log
        given: Any = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        roots = [given] if isinstance(given, torch.Tensor) else list(given)
        every = (node for root in roots for node in nodes_behind(root))
        nodes = list(dict.fromkeys(itertools.islice(every, _MOST_NODES)))
        leaves = [node.variable for node in nodes if hasattr(node, "variable")]
        keeps = kwargs.get("retain_graph")
        one = Pass(
            user_site(sys._getframe(1)),
            frozenset((node.name(), node._sequence_nr()) for node in nodes if not hasattr(node, "variable")),
            bool(kwargs.get("create_graph")) if keeps is None else bool(keeps),
            frozenset(number for leaf in leaves for number in log.numbers_of(leaf)),
        )
        if log.first_backward is None and any(root.numel() == 1 for root in roots):
            log.first_backward = next((bad for root in roots if (bad := log.not_finite(root))), None)
        del nodes, leaves, every
        self._depth += 1
        try:
            return backward(*args, **kwargs)
        except BaseException:
            one.failed = True
            raise
        finally:
            self._depth -= 1
            log.passes.append(one)


def _telling(backward: Callable, listeners: list[Callable]) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        run = backward
        for listener in tuple(listeners):
            run = functools.partial(listener, run)
        return run(*args, **kwargs)

    return call


_BACKWARD = [replaced(torch.autograd, name, _telling) for name in ("backward", "grad")]


class _Plan(NamedTuple):
    """What an operation's schema says: its name, the arguments that it writes to, and whether its results are views."""

    name: str
    writes: tuple[tuple[int, str], ...]
    views: bool


_plans: dict[Any, _Plan] = {}


def _plan(func: Any) -> _Plan:
    schema = getattr(func, "_schema", None)
    if schema is None:
        return _Plan(str(func), (), False)
    written = [(at, one.name) for at, one in enumerate(schema.arguments) if one.alias_info and one.alias_info.is_write]
    views = bool(schema.returns) and all(one.alias_info and not one.alias_info.is_write for one in schema.returns)
    return _Plan(schema.name.partition("::")[2], tuple(written), views)


class _Seen:
    """One operation that has run."""

    def __init__(self, name: str, args: tuple, kwargs: dict) -> None:
        self.name, self.args, self.kwargs = name, args, kwargs
        self.frame, self.in_backward = sys._getframe(2), current_graph_task() >= 0

    @functools.cached_property
    def site(self) -> Site:
        """The user's line."""
        return user_site(self.frame)

    @functools.cached_property
    def tensors(self) -> list[torch.Tensor]:
        """What it was given."""
        return list(tensors_in((*self.args, *self.kwargs.values())))


def _watcher(log: Log) -> Watcher:
    """Fills a log with what the operations of one thread do.

    Autograd makes an operation's nodes before it calls what is below it, so the numbers given out between two
    operations are of nodes of the second.
    """
    nodes, last = Nodes(), sequence_number()
    log.threads.append(nodes)

    def watch(run: Run, func: Any, args: tuple, kwargs: dict) -> Any:
        nonlocal last
        start, last = last, sequence_number()
        end = last
        out = run(func, args, kwargs)
        last = max(end, sequence_number())
        try:
            after(func, args, kwargs, start, end, out)
        except Exception:  # a tensor that cannot be asked is not watched, and the program goes on
            log.failed += 1
        return out

    def after(func: Any, args: tuple, kwargs: dict, start: int, end: int, out: Any) -> None:
        call = getattr(func, "_op", func)  # its hash is quicker
        plan = _plans.get(call)
        if plan is None:
            plan = _plans[call] = _plan(func)
        one = _Seen(plan.name, args, kwargs)
        recorded = end != start and not one.in_backward
        if recorded:
            cut = next((cut for tensor in one.tensors if (cut := log.cut(tensor)) is not None), None)
            nodes.add(start, end, Recorded(one.name, one.site, cut))
        steps = outside(one.frame).f_code.co_filename.startswith(_OPTIMIZERS)
        _edit(log, one, plan, steps)
        if steps:
            return
        if one.name == "_local_scalar_dense":
            _number(log, one, out)
            return
        for result in tensors_in((out,)):
            memories = log.memory(result)
            if not recorded and not one.in_backward and not plan.writes and not result.requires_grad:
                _note_cut(log, one, result, memories)
            if not plan.views and result.is_floating_point() and log.many_bad < _MOST_BAD:
                _look(log, one, result, memories)

    return watch


def _edit(log: Log, one: _Seen, plan: _Plan, steps: bool) -> None:
    """Notes what was written to, by an optimizer or not."""
    for at, name in plan.writes:
        for tensor in tensors_in((one.args[at] if at < len(one.args) else one.kwargs.get(name),)):
            edit = Edited(one.name, one.site, version_of(tensor) + 1)  # it is counted above this, and afterwards
            for memory in log.memory(tensor):
                memory.stepped |= steps
                memory.edits = [*(memory.edits or ()), edit]
                if len(memory.edits) > 24:
                    del memory.edits[4:14]


def _number(log: Log, one: _Seen, number: object) -> None:
    (tensor,) = one.tensors
    cut = _new_cut(log, one, "number", tensor) if tensor.requires_grad else log.cut(tensor)
    if cut is not None and isinstance(number, float) and not one.in_backward:
        if len(log.numbers) > 4096:
            log.numbers.clear()
        log.numbers[number] = cut


def _note_cut(log: Log, one: _Seen, result: torch.Tensor, memories: list[Memory]) -> None:
    """Where something with a history went in and nothing was recorded, the history ended."""
    cut = None
    if one.name == "lift_fresh":
        cut = log.number(result.reshape(-1)[0].item()) if result.numel() else None
    else:
        source = next((tensor for tensor in one.tensors if tensor.requires_grad), None)
        if source is not None:
            how = "detach" if one.name == "detach" else "operation" if result.is_floating_point() else "dtype"
            cut = _new_cut(log, one, how if torch.is_grad_enabled() else "mode", source)
        else:
            cut = next((cut for tensor in one.tensors if (cut := log.cut(tensor)) is not None), None)
    if cut is not None:
        for memory in memories:
            memory.cut = cut


def _new_cut(log: Log, one: _Seen, how: str, tensor: torch.Tensor) -> Cut:
    """A cut, the same one for each line: its leaves are looked up once."""
    known = log.cut_at.get((one.site, how))
    if known is None:
        nodes = itertools.islice(nodes_behind(tensor), _MOST_NODES)
        leaves = [tensor] if tensor.is_leaf else [node.variable for node in nodes if hasattr(node, "variable")]
        numbers = frozenset(number for leaf in leaves for number in log.numbers_of(leaf))
        known = log.cut_at[one.site, how] = Cut(one.name, one.site, how, numbers)
    return known


def _look(log: Log, one: _Seen, result: torch.Tensor, memories: list[Memory]) -> None:
    """Notes an operation that makes a NaN or an infinity."""
    what = kind_of_bad(result)
    if not what or "empty" in one.name:  # memory that nobody has filled yet may hold anything
        for memory in memories:
            memory.bad = None
        return
    others = [tensor for tensor in one.tensors if tensor is not result]
    known = [bad for tensor in others if (bad := log.not_finite(tensor)) is not None]
    found = next((bad for bad in known if bad.what == what), None)
    if found is None:
        unknown = [tensor for tensor in others if kind_of_bad(tensor) and log.not_finite(tensor) is None]
        edits = [edit for tensor in unknown for edit in log.edits(tensor)[-1:]]
        call = _of_backward(log) if one.in_backward else None
        call = call or Call(one.name, one.site)
        found = NotFinite(
            call.name, call.site, what, tuple(map(range_of, one.tensors)), backward=one.in_backward,
            given=bool(unknown) or not one.tensors, before=known[0] if known else None,
            edited=edits[0] if edits else None,
        )  # fmt: skip
    for memory in memories:
        memory.bad = found
    log.many_bad += 1
    if one.in_backward and log.first_backward is None:
        log.first_backward = found


def _of_backward(log: Log) -> Call | None:
    """The call that recorded the node that a backward pass is at."""
    node = current_autograd_node()
    known = log.node(node) if node is not None else None
    return (
        known if known is not None or node is None else Call(operation_name(node.name()), user_site(sys._getframe(3)))
    )

"""Notes what each operation did to what it was given, for ``watch_why`` (``watcher``)."""

import functools
import itertools
import math
import sys
import threading
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

import torch

from course_utils.base.torch_private import current_autograd_node, current_graph_task, sequence_number
from course_utils.base.user_code import Site, is_user_file, outside, user_site
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.report import operation_name
from course_utils.record.operations import Run, Watcher
from course_utils.why.log import Call, Cut, Edited, Log, Memory, Nodes, NotFinite, Recorded, Switch
from course_utils.why.look import kind_of_bad, range_of, tensors_in, version_of

MOST_NODES = 30_000
"""Of a larger graph, backward is not looked into."""

_MOST_BAD = 2000
"""After so many results that are not finite, nobody looks for more."""

_OPTIMIZERS = f"{torch.__path__[0]}/optim/"
_CHECKPOINT = f"{torch.__path__[0]}/utils/checkpoint.py"


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

    @property
    def by(self) -> str:
        """The library's function that runs it for the user's line; "" where the line itself does."""
        frame: FrameType | None = outside(self.frame)
        while frame is not None and not is_user_file(frame.f_code.co_filename):
            if not frame.f_code.co_name.startswith("_"):
                return frame.f_code.co_qualname.lstrip("_")
            frame = frame.f_back
        return ""


def watcher(log: Log) -> Watcher:
    """Fills a log with what the operations of one thread do.

    Autograd makes an operation's nodes before it calls what is below it, so the numbers given out between two
    operations are of nodes of the second.
    """
    nodes, last, at = Nodes(), sequence_number(), (0, 0)
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
        nonlocal at
        frame = outside(one.frame)
        before, at = at, (id(frame), frame.f_lasti)
        steps = frame.f_code.co_filename.startswith(_OPTIMIZERS)
        if one.name == "detach" and at == before:
            return  # autograd's own, of the result that the operation before it keeps
        entered = None if steps or one.in_backward else _entered(log, one)
        if recorded:
            nodes.add(start, end, Recorded(one.name, one.site, entered))
        _edit(log, one, plan, steps)
        if steps:
            return
        if one.name == "_local_scalar_dense":
            if one.tensors[0].requires_grad and not one.in_backward:
                _new_cut(log, one, "number", one.tensors[0])
            return
        for result in tensors_in((out,)):
            memories = log.memory(result)
            if recorded and (result.is_floating_point() or result.is_complex()):
                for memory in memories:
                    memory.recorded |= not plan.views  # a view of a leaf shares the leaf's memory
            elif not one.in_backward and not plan.writes and not result.requires_grad:
                cut = _ended(log, one, result) or entered
                if one.name == "lift_fresh" and result.is_floating_point():
                    cut = Cut("tensor", one.site, "values")
                for memory in memories if cut is not None else ():
                    memory.cut = cut
            if not plan.views and result.is_floating_point() and log.many_bad < _MOST_BAD:
                _look(log, one, result, memories)

    return watch


def _entered(log: Log, one: _Seen) -> Cut | None:
    """Where the history of something had ended that an operation is given now."""
    found = None
    for tensor in one.tensors:
        if tensor.requires_grad and not tensor.is_leaf:
            continue
        for memory in log.memory(tensor):
            if not tensor.requires_grad and memory.plain is None and one.name != "detach":
                memory.plain = Call(one.name, one.site)
            if not tensor.requires_grad and (cut := log.cut(tensor)) is not None:
                found = cut if found is None or found.how == "values" else found
            elif memory.recorded and torch.is_grad_enabled():
                first = memory.tensor() if memory.tensor is not None else None
                found = memory.cut or _new_cut(log, one, "data", first)
    return found


def _edit(log: Log, one: _Seen, plan: _Plan, steps: bool) -> None:
    """Notes what was written to, by an optimizer or not."""
    for at, name in plan.writes:
        for tensor in tensors_in((one.args[at] if at < len(one.args) else one.kwargs.get(name),)):
            # The version is counted above this, and afterwards.
            edit = Edited(
                one.name, one.site, version_of(tensor) + 1, one.by, steps, torch.is_grad_enabled(), tensor._is_view()
            )
            for memory in log.memory(tensor):
                memory.stepped |= steps
                memory.edits = [*(memory.edits or ()), edit]
                if len(memory.edits) > 24:
                    del memory.edits[4:14]


def _ended(log: Log, one: _Seen, result: torch.Tensor) -> Cut | None:
    """Where something with a history went in and nothing was recorded, the history ended."""
    source = next((tensor for tensor in one.tensors if tensor.requires_grad), None)
    if source is None:
        return None
    how = "detach" if one.name == "detach" else "operation" if result.is_floating_point() else "dtype"
    return _new_cut(log, one, how if torch.is_grad_enabled() else "mode", source)


def _new_cut(log: Log, one: _Seen, how: str, tensor: torch.Tensor | None) -> Cut:
    """A cut, the latest one for each line: its leaves are looked up once."""
    known = log.cut_at.pop((one.site, how), None)
    node = tensor.grad_fn if tensor is not None else None
    if known is None:
        nodes = list(itertools.islice(nodes_behind(tensor), MOST_NODES)) if tensor is not None else []
        leaves = [one.variable for one in nodes if hasattr(one, "variable")]
        leaves += [tensor] if tensor is not None and tensor.is_leaf else []
        numbers = frozenset(number for leaf in leaves for number in log.numbers_of(leaf))
        switch = _switch(log, one.frame) if how == "mode" else None
        known = Cut(one.name, one.site, how, numbers, switch=switch)
    known = replace(known, node=-1 if node is None else node._sequence_nr())
    log.cut_at[one.site, how] = known
    return known


def _switch(log: Log, frame: FrameType | None) -> Switch | None:
    """Who has switched recording off where an operation runs."""
    while frame is not None:
        if frame.f_code.co_filename == _CHECKPOINT and frame.f_code.co_name == "forward":
            return Switch("checkpoint", user_site(frame))
        frame = frame.f_back
    return log.switches.get(threading.get_ident())


def _look(log: Log, one: _Seen, result: torch.Tensor, memories: list[Memory]) -> None:
    """Notes an operation that makes a NaN or an infinity."""
    what = kind_of_bad(result)
    asked = any(isinstance(value, float) and value in (math.inf, -math.inf) for value in one.args)
    if not what or asked or "empty" in one.name:  # memory that nobody has filled yet may hold anything
        for memory in memories:
            memory.bad = None
        return
    others = [tensor for tensor in one.tensors if tensor is not result]
    known = [bad for tensor in others if (bad := log.not_finite(tensor)) is not None]
    found = next((bad for bad in known if bad.what == what), None)
    if found is None:
        unknown = [tensor for tensor in others if kind_of_bad(tensor) == what and log.not_finite(tensor) is None]
        edits = [edit for tensor in unknown for edit in log.edits(tensor)[-1:]]
        call = _of_backward(log) if one.in_backward else None
        call = call or Call(one.name, one.site)
        before = next((bad for bad in known if not bad.given), None)
        found = NotFinite(
            call.name, call.site, what, tuple(map(range_of, one.tensors)), backward=one.in_backward,
            given=bool(unknown) or not one.tensors, before=before, edited=edits[0] if edits else None,
        )  # fmt: skip
    for memory in memories:
        memory.bad = found
    log.many_bad += 1
    running = log.running[-1] if log.running else None
    # Of what is infinite on the way back, that which makes a NaN in the end counts.
    if (
        one.in_backward
        and running is not None
        and (running.bad is None or (what == "nan" and running.bad.what == "inf"))
    ):
        running.bad = found
        if log.first_bad is None or log.first_bad.what == "inf":
            log.first_bad = found


def _of_backward(log: Log) -> Call | None:
    """The call that recorded the node that a backward pass is at."""
    node = current_autograd_node()
    known = log.node(node) if node is not None else None
    return (
        known if known is not None or node is None else Call(operation_name(node.name()), user_site(sys._getframe(3)))
    )

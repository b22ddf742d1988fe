"""Notes what each operation did to what it was given, for ``watch_why`` (``Witness``)."""

import functools
import math
import sys
import threading
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

import torch

from course_utils.base.torch_private import current_autograd_node, current_graph_task, sequence_number
from course_utils.base.user_code import NOWHERE, Site, is_user_file, outside, user_site
from course_utils.graph.report import operation_name
from course_utils.record.operations import Run
from course_utils.why.log import Call, Cut, Edited, Log, Memory, NotFinite
from course_utils.why.look import kind_of_bad, leaves_behind, range_of, tensors_in

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


class Witness:
    """Fills a log with what the operations of one thread do.

    Autograd makes an operation's nodes before it calls what is below it, so the numbers given out between two
    operations are of nodes of the second.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._nodes = log, dict[int, Call]()
        self._last, self._at = sequence_number(), (0, 0)
        log.threads.append(self._nodes)

    def __call__(self, run: Run, func: Any, args: tuple, kwargs: dict) -> Any:
        start, end = self._last, sequence_number()
        self._last = end
        out = run(func, args, kwargs)
        self._last = max(end, sequence_number())
        try:
            frame = outside(sys._getframe(1))
            before, self._at = self._at, (id(frame), frame.f_lasti)
            call = getattr(func, "_op", func)  # its hash is quicker
            plan = _plans.get(call) or _plans.setdefault(call, _plan(func))
            if plan.name != "detach" or self._at != before:  # else autograd's own, of the result that it keeps
                _Operation(self._log, plan, args, kwargs, frame).note(self._nodes, start, end, out)
        except Exception:  # a tensor that cannot be asked is not watched, and the program goes on
            self._log.failed += 1
        return out


class _Operation:
    """One operation that has run."""

    def __init__(self, log: Log, plan: _Plan, args: tuple, kwargs: dict, frame: FrameType) -> None:
        self.log, self.plan, self.name, self.args, self.kwargs = log, plan, plan.name, args, kwargs
        self.frame, self.in_backward = frame, current_graph_task() >= 0
        self.steps = frame.f_code.co_filename.startswith(_OPTIMIZERS)

    @functools.cached_property
    def site(self) -> Site:
        """The user's line."""
        return user_site(self.frame)

    @functools.cached_property
    def tensors(self) -> list[torch.Tensor]:
        """What it was given."""
        return list(tensors_in((*self.args, *self.kwargs.values())))

    def note(self, nodes: dict[int, Call], start: int, end: int, out: Any) -> None:
        """Notes what it did.

        Args:
            nodes: the calls that recorded the thread's nodes.
            start: the number of the first node that it recorded, if ``end`` is another.
            out: its result.
        """
        recorded = end != start and not self.in_backward
        entered = None if self.steps or self.in_backward else self._entered()
        if recorded:
            self.log.record(nodes, start, end, Call(self.name, self.site, entered))
        self._edit()
        if self.steps:
            return
        if self.name == "_local_scalar_dense":
            if self.tensors[0].requires_grad and not self.in_backward:
                self._cut("number", self.tensors[0])
            return
        for result in tensors_in((out,)):
            memories, floats = self.log.memory(result), result.is_floating_point()
            if recorded and (floats or result.is_complex()):
                for memory in memories:
                    memory.recorded |= not self.plan.views  # a view of a leaf shares the leaf's memory
            elif not self.in_backward and not self.plan.writes and not result.requires_grad:
                cut = self._ended(floats) or entered
                if self.name == "lift_fresh" and floats:
                    cut = Cut(self.name, self.site, how="values")
                for memory in memories if cut is not None else ():
                    memory.cut = cut
            if not self.plan.views and floats:
                self._look(result, memories)

    def _entered(self) -> Cut | None:
        """Where the history of something had ended that it is given."""
        found = None
        for tensor in self.tensors:
            if tensor.requires_grad and not tensor.is_leaf:
                continue
            cut = self.log.cut(tensor)
            for memory in self.log.memory(tensor):
                if not tensor.requires_grad and memory.plain is None and self.name != "detach":
                    memory.plain = self.site
                if cut is not None:
                    found = cut if found is None or found.how == "values" else found
                elif memory.recorded and torch.is_grad_enabled():
                    found = memory.cut or self._cut("data", memory.tensor() if memory.tensor is not None else None)
        return found

    def _edit(self) -> None:
        """Notes what was written to, by an optimizer or not."""
        for at, name in self.plan.writes:
            for tensor in tensors_in((self.args[at] if at < len(self.args) else self.kwargs.get(name),)):
                # The version is counted above this, and afterwards.
                version = 0 if tensor.is_inference() else tensor._version + 1
                edit = Edited(
                    self.name, self.site, version=version, by=self._by(), steps=self.steps, view=tensor._is_view()
                )
                for memory in self.log.memory(tensor):
                    edits = (*memory.edits, edit)
                    memory.edits = edits if len(edits) <= 24 else (*edits[:4], *edits[14:])

    def _by(self) -> str:
        """The library's function that runs it for the user's line; "" where the line itself does."""
        frame: FrameType | None = self.frame
        while frame is not None and not is_user_file(frame.f_code.co_filename):
            if not frame.f_code.co_name.startswith("_"):
                return frame.f_code.co_qualname.lstrip("_")
            frame = frame.f_back
        return ""

    def _ended(self, floats: bool) -> Cut | None:
        """Where something with a history went in and nothing was recorded, the history ended."""
        source = next((tensor for tensor in self.tensors if tensor.requires_grad), None)
        how = "detach" if self.name == "detach" else "operation" if floats else "dtype"
        return None if source is None else self._cut(how if torch.is_grad_enabled() else "mode", source)

    def _cut(self, how: str, tensor: torch.Tensor | None) -> Cut:
        """A cut, the latest one for each line: its leaves are looked up once."""
        known = self.log.cut_at.pop((self.site, how), None)
        if known is None:
            leaves = self.log.numbers_of(leaves_behind(tensor) if tensor is not None else ())
            known = Cut(self.name, self.site, how=how, leaves=leaves)
            known = self._switched(known) if how == "mode" else known
        node = tensor.grad_fn if tensor is not None else None
        known = self.log.cut_at[self.site, how] = replace(known, node=-1 if node is None else node._sequence_nr())
        return known

    def _switched(self, cut: Cut) -> Cut:
        """A cut, and who had switched recording off."""
        frame: FrameType | None = self.frame
        while frame is not None:
            if frame.f_code.co_filename == _CHECKPOINT and frame.f_code.co_name == "forward":
                return replace(cut, how="reentrant", site=user_site(frame))
            frame = frame.f_back
        return replace(cut, switch=self.log.switches.get(threading.get_ident(), NOWHERE))

    def _look(self, result: torch.Tensor, memories: list[Memory]) -> None:
        """Notes an operation that makes a NaN or an infinity."""
        what, log = kind_of_bad(result), self.log
        asked = any(isinstance(value, float) and math.isinf(value) for value in self.args)
        # Memory that nobody has filled yet may hold anything.
        found = self._bad(what, result) if what and not asked and "empty" not in self.name else None
        for memory in memories:
            memory.bad = found
        running = log.running[-1] if log.running else None
        if found is None or running is None or not self.in_backward:
            return
        # Of what is infinite on the way back, that which makes a NaN in the end counts.
        if running.bad is None or (what == "nan" and running.bad.what == "inf"):
            running.bad = found
            if log.first_bad is None or log.first_bad.what == "inf":
                log.first_bad = found

    def _bad(self, what: str, result: torch.Tensor) -> NotFinite:
        """What first made a NaN or an infinity that is in the result."""
        log, others = self.log, [tensor for tensor in self.tensors if tensor is not result]
        known = [bad for tensor in others if (bad := log.of(tensor, "bad")) is not None]
        for bad in known:
            if bad.what == what:
                return bad
        call, node = Call(self.name, self.site), current_autograd_node() if self.in_backward else None
        if node is not None:  # the call that recorded it
            call = log.node(node) if log.node(node).site.file else Call(operation_name(node.name()), self.site)
        unknown = [tensor for tensor in others if kind_of_bad(tensor) == what and log.of(tensor, "bad") is None]
        edits = [edit for tensor in unknown for edit in log.of(tensor, "edits") or ()]
        return NotFinite(
            call.name, call.site, what=what, inputs=tuple(map(range_of, self.tensors)), backward=self.in_backward,
            given=bool(unknown) or not self.tensors, before=next((bad for bad in known if not bad.given), None),
            edited=edits[-1].site if edits else NOWHERE,
        )  # fmt: skip

"""Notes what each operation did to what it was given, for ``watch_why`` (``Witness``)."""

import copy
import dis
import functools
import itertools
import math
import sys
import threading
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointFunction

from course_utils.base.torch_private import current_autograd_node, current_graph_task, sequence_number
from course_utils.base.user_code import NOWHERE, is_user_file, outside, user_site
from course_utils.graph import operation_name
from course_utils.graph.recorded import leaves_behind, saved_slots
from course_utils.record.operations import Run, tensors_in
from course_utils.why.log import Call, Cut, Edited, Log, NotFinite, kind_of_bad, range_of

_OPTIMIZERS = f"{torch.__path__[0]}/optim/"
_TO_AN_INDEX = dis.opmap["STORE_SUBSCR"]  # of `x[i] = y`


@functools.cache
def _schema(func: Any) -> tuple[str, list[int], bool]:
    """An operation's name, the places of the arguments that it writes to, and whether its results are views."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return str(func), [], False
    writes = [at for at, one in enumerate(schema.arguments) if one.alias_info and one.alias_info.is_write]
    views = bool(schema.returns) and all(one.alias_info and not one.alias_info.is_write for one in schema.returns)
    return schema.name.partition("::")[2], writes, views


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
            schema, steps = _schema(func), frame.f_code.co_filename.startswith(_OPTIMIZERS)
            own = schema[0] == "detach" and self._at == before  # autograd's, of the result that it keeps
            if not own and (end > start or not steps):  # of an optimizer's it is enough that it has made its step
                _Operation(self._log, schema, args, kwargs, frame).note(self._nodes, range(start, end), out)
        except Exception:  # a tensor that cannot be asked is not watched, and the program goes on
            self._log.failed += 1
        return out


class _Operation:
    """One operation that has run."""

    def __init__(self, log: Log, schema: tuple, args: tuple, kwargs: dict, frame: FrameType) -> None:
        self.log, self.args, self.frame, self.site = log, args, frame, user_site(frame)
        self.name, self.writes, self.views = schema
        self.in_backward = current_graph_task() >= 0
        self.tensors = list(tensors_in((*args, *kwargs.values())))

    def note(self, nodes: dict[int, Call], recorded: range, out: Any) -> None:
        """Notes what it did: the nodes that it ``recorded`` among those of its thread, and its result."""
        forward = not self.in_backward
        entered = self._entered(bool(recorded)) if forward else None
        if recorded and forward:
            nodes.update(dict.fromkeys(recorded, Call(self.name, self.site, entered, self.log.stack(self.frame))))
            for number in list(nodes)[:100_000] if len(nodes) > 200_000 else ():  # the older half is forgotten
                del nodes[number]
        if self.writes:
            self._edit()
        if self.name == "_local_scalar_dense" and forward and any(one.requires_grad for one in self.tensors):
            self._cut("number", self.tensors[0])
        for result in tensors_in((out,)):
            memories, floats = self.log.memory(result), result.is_floating_point()
            if recorded and forward and (floats or result.is_complex()):
                for memory in memories:
                    memory.recorded |= not self.views  # a view of a leaf shares the leaf's memory
            elif forward and not self.writes and not result.requires_grad:
                cut = self._ended(floats) or entered
                if self.name == "lift_fresh" and floats:
                    cut = Cut(self.name, self.site, how="values")
                for memory in memories if cut is not None else ():
                    memory.cut = cut
            if not self.views and (floats or result.is_complex()):
                self._look(result)

    def _entered(self, recorded: bool) -> Cut | None:
        """Where the history of something had ended that it is given; and notes that it was used."""
        found, computes = None, recorded and not self.writes
        for tensor in self.tensors:
            if tensor.requires_grad and not tensor.is_leaf:
                continue
            cut = self.log.cut(tensor)
            for memory in self.log.memory(tensor):
                memory.used = self.site if computes else memory.used
                if cut is not None:
                    found = cut if found is None or found.how in ("values", "gradient") else found
                elif memory.recorded and torch.is_grad_enabled():
                    found = memory.cut or self._cut("data", memory.tensor() if memory.tensor is not None else None)
        return found

    def _edit(self) -> None:
        """Notes what was written to, by an optimizer or not."""
        codes, stack = [frame.f_code for frame, _ in walk_stack(self.frame)], self.log.stack(self.frame)
        steps = any(code.co_filename.startswith(_OPTIMIZERS) for code in codes)  # of the user's own class
        inside = itertools.takewhile(lambda code: not is_user_file(code.co_filename), codes)
        by = next((code.co_qualname for code in inside if not code.co_name.startswith("_")), "")
        for tensor in tensors_in([self.args[at] for at in self.writes if at < len(self.args)]):
            version = 0 if tensor.is_inference() else tensor._version + 1  # it is counted above this, and afterwards
            in_part = tensor._base is not None and tensor.numel() < tensor._base.numel()
            in_part |= self.frame.f_code.co_code[self.frame.f_lasti] == _TO_AN_INDEX
            self.log.edit(tensor, Edited(self.name, self.site, None, stack, version, by, steps, in_part))

    def _ended(self, floats: bool) -> Cut | None:
        """Where something with a history went in and nothing was recorded, the history ended."""
        is_made_like = self.name.startswith("new_") or self.name.endswith("_like")  # of it, the shape counts alone
        source = next((tensor for tensor in self.tensors if tensor.requires_grad and not is_made_like), None)
        how = "detach" if self.name == "detach" else "operation" if floats else "dtype"
        return None if source is None else self._cut(how if torch.is_grad_enabled() else "mode", source)

    def _cut(self, how: str, tensor: torch.Tensor | None) -> Cut:
        """A cut, the latest one for each line: its leaves are looked up once."""
        known = self.log.cut_at.pop((self.site, how), None)
        if known is None:
            leaves = self.log.numbers_of(leaves_behind(tensor) if tensor is not None else ())
            known = Cut(self.name, self.site, how=how, leaves=leaves, after=self.log.count)
            frames = [frame for frame, _ in walk_stack(self.frame)] if how in ("mode", "detach", "data") else []
            if inside := [user_site(one) for one in frames if one.f_code is CheckpointFunction.forward.__code__]:
                known.how, known.site = "reentrant", inside[0]
            elif any(one.f_code is copy.deepcopy.__code__ for one in frames):
                known.how = "copy"
            elif how == "mode":
                known.switch = self.log.switches.get(threading.get_ident(), NOWHERE)
        known.node = -1 if tensor is None or tensor.grad_fn is None else tensor.grad_fn._sequence_nr()
        self.log.cut_at[self.site, how] = known
        return known

    def _look(self, result: torch.Tensor) -> None:
        """Notes an operation that makes a NaN or an infinity, or a gradient zero."""
        what = kind_of_bad(result, may_be_zero=not self.in_backward)
        asked = any(isinstance(value, float) and math.isinf(value) for value in self.args)
        # Memory that nobody has filled yet may hold anything.
        found = self._bad(what, result) if what and not asked and "empty" not in self.name else None
        for memory in self.log.memory(result):
            memory.bad = found
        running = self.log.running[-1] if self.log.running and self.in_backward else None
        # Of what is infinite on the way back, that which makes a NaN in the end counts.
        if found and running and what != "zero" and (running.bad is None or what > running.bad.what):
            running.bad = found

    def _bad(self, what: str, result: torch.Tensor) -> NotFinite:
        """What first made a NaN or an infinity that is in the result."""
        log, others = self.log, [tensor for tensor in self.tensors if tensor is not result]
        known = [bad for tensor in self.tensors if (bad := log.of(tensor, "bad")) is not None]
        if same := [bad for bad in known if bad.what == what]:
            return same[0]
        call, kept = Call(self.name, self.site), self.tensors
        node = current_autograd_node() if self.in_backward else None
        if node is not None and all(self.site == one.site for one in log.running[-1:]):  # no hook of the user's
            # The call that recorded it; what it was given on the way back is not what it kept.
            kept = [slot.value for slot in saved_slots(node, False) if slot.value is not None]
            call = log.node(node) if log.node(node).site.file else Call(operation_name(node.name()), self.site)
        unknown = [tensor for tensor in others if kind_of_bad(tensor) == what and log.of(tensor, "bad") is None]
        given = "weights" if any(one.requires_grad for one in unknown) else "data"
        return NotFinite(
            call.name, call.site, what=what, inputs=tuple(map(range_of, kept)), backward=self.in_backward,
            given=given * bool(unknown or not self.tensors),
            before=next((bad for bad in known if bad.what == "inf" and not bad.given), None),
        )  # fmt: skip

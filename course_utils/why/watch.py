"""Sees what becomes of tensors while a program runs, for ``why`` (``watch_why``)."""

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from course_utils.base.torch_private import is_functorch_wrapped, sequence_number
from course_utils.base.user_code import NOWHERE, Site, user_site
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.report import operation_name
from course_utils.why.log import Call, Cut, Edited, Log, NotFinite, Pass, keys_of
from course_utils.why.look import (
    BACKWARD,
    MAKER,
    NUMBER,
    PASS,
    SET,
    SWITCH,
    how_cut,
    kind_of_bad,
    number_of,
    numbers_in,
    plan_of,
    range_of,
    tensors_in,
    version_of,
)

_MOST_NODES = 30_000
"""Of a larger graph, backward is not looked into."""

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

    Limits: operations of the thread that entered are seen. What ``torch.compile`` made runs uncompiled meanwhile. What
    NumPy computes is not seen.
    """

    def __init__(self) -> None:
        self.log = Log()
        self._mode = _Watch(self.log)
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> "watch_why":
        _latest[:] = [self.log]
        with contextlib.ExitStack() as undo:
            for owner, name, watched in (
                (torch.autograd, "backward", self._mode.around(torch.autograd.backward)),
                (torch, "compile", self._eagerly(torch.compile)),
            ):
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, watched)
            if "torch._dynamo" in sys.modules:
                self._force_eager(undo)
            undo.enter_context(self._mode)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._undo.close()

    def _eagerly(self, compile_: Callable) -> Callable:
        """``torch.compile`` as it is, whose results run uncompiled as long as the watch lasts: so they are seen."""
        waiting = [self._force_eager]

        @functools.wraps(compile_)
        def watched(*args: Any, **kwargs: Any) -> Any:
            made = compile_(*args, **kwargs)
            if waiting and "torch._dynamo" in sys.modules:
                waiting.pop()(self._undo)
            return made

        return watched

    def _force_eager(self, undo: contextlib.ExitStack) -> None:
        undo.enter_context(torch.compiler.set_stance("force_eager"))


class _Watch(TorchFunctionMode):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log
        self._plans: dict[Any, tuple[int, str]] = {}
        self._off: Site | None = None  # the line that switched recording off
        self._depth = 0
        self._looks = True

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = plan_of(func)
        kind, name = plan
        if kind == PASS:
            return func(*args, **kwargs)
        if kind == BACKWARD:
            return self._pass(func, args, kwargs) if name == "grad" else func(*args, **kwargs)
        frame = sys._getframe(1)
        if kind == SWITCH:
            self._off = None if args and args[0] else user_site(frame)
            return func(*args, **kwargs)
        tensors = list(tensors_in(args))
        tensors += tensors_in(tuple(kwargs.values())) if kwargs else ()
        versions = [version_of(tensor) for tensor in tensors]
        start = sequence_number()
        out = func(*args, **kwargs)
        try:
            self._after(kind, name, frame, tensors, versions, start, out, args)
        except Exception:  # a tensor that cannot be asked is not watched, and the program goes on
            self.log.failed += 1
        return out

    def _after(
        self, kind: int, name: str, frame: Any, tensors: list, versions: list, start: int, out: Any, args: tuple
    ) -> None:
        log, site = self.log, None
        end = sequence_number()
        if end != start:
            site = user_site(frame)
            log.add_nodes(start, end, Call(name, site))
            for tensor in tensors:
                if not tensor.requires_grad and (cut := log.cut(tensor)) is not None:
                    log.add_entered(range(start, end), cut)
        edited, steps = False, frame.f_code.co_filename.startswith(_OPTIMIZERS)
        for tensor, version in zip(tensors, versions, strict=True):
            if version_of(tensor) != version:
                edited, site = True, site or user_site(frame)
                for key in keys_of(tensor):
                    if steps:
                        log.steps[key] = site
                    log.add_edit(key, Edited(name, site, version_of(tensor)))
        if steps:
            return
        if kind == SET:
            self._set(name, args, site or user_site(frame))
            return
        if kind == NUMBER:
            self._number(name, tensors[0], out, site or user_site(frame))
            return
        results = (
            [out] if isinstance(out, torch.Tensor) else list(tensors_in(out)) if type(out) in (tuple, list) else []
        )
        for result in results:
            if is_functorch_wrapped(result):
                continue
            # What a layer makes may be a view, too: of a result inside of it.
            is_new = keys_of(result) != keys_of(tensors[0]) if tensors else True
            if not edited and is_new:
                site = site or user_site(frame)
                for key in keys_of(result):
                    log.add_made(key, Call(name, site))
            if not result.requires_grad:
                self._cut(kind, name, frame, tensors, result, args)
            if self._looks and result.is_floating_point() and (edited or is_new):
                self._look(name, frame, tensors, result)

    def _cut(self, kind: int, name: str, frame: Any, tensors: list, result: torch.Tensor, args: tuple) -> None:
        log = self.log
        if kind == MAKER and not tensors:
            known = log.number(number_of(args[0])) if args else None
            if known is not None:
                log.add_cut(result, known)
            return
        for tensor in tensors:
            if tensor is result:
                continue
            if tensor.requires_grad:
                how = "mode" if not torch.is_grad_enabled() else how_cut(name, kind, result)
                log.add_cut(result, self._new_cut(name, user_site(frame), how, tensor))
                return
        for tensor in tensors:
            known = log.cut(tensor)
            if known is not None:
                log.add_cut(result, known)
                return

    def _new_cut(self, name: str, site: Site, how: str, tensor: torch.Tensor) -> Cut:
        """A cut, the same one for each line: its leaves are looked up once."""
        known = self.log.cut_at.get((site, how))
        if known is None:
            nodes = itertools.islice(nodes_behind(tensor), _MOST_NODES)
            leaves = [tensor] if tensor.is_leaf else [node.variable for node in nodes if hasattr(node, "variable")]
            keys = frozenset(key for leaf in leaves for key in keys_of(leaf))
            known = Cut(name, site, how, self._off if how == "mode" else None, keys)
            self.log.cut_at[site, how] = known
        return known

    def _number(self, name: str, tensor: torch.Tensor, out: Any, site: Site) -> None:
        cut = self.log.cut(tensor)
        if tensor.requires_grad:
            cut = self._new_cut(name, site, "numpy" if name in ("numpy", "__array__") else "number", tensor)
        if cut is not None:
            for number in numbers_in(out):
                self.log.add_number(number, cut)

    def _set(self, name: str, args: tuple, site: Site) -> None:
        if name == "grad" and args[1] is None:
            for key in keys_of(args[0]):
                self.log.cleared[key] = Call(name, site)

    def _look(self, name: str, frame: Any, tensors: list, result: torch.Tensor) -> None:
        """Notes an operation that makes a NaN or an infinity."""
        what, log = kind_of_bad(result), self.log
        if not what or "empty" in name:  # memory that nobody has filled yet may hold anything
            for key in keys_of(result):
                log.bad.pop(key, None)
            return
        known = [bad for tensor in tensors if tensor is not result and (bad := log.not_finite(tensor)) is not None]
        found = next((bad for bad in known if bad.what == what), None)
        if found is None:
            given = [tensor for tensor in tensors if tensor is not result and kind_of_bad(tensor)]
            unknown = [tensor for tensor in given if log.not_finite(tensor) is None]
            edits = [edit for tensor in unknown for edit in log.edits(tensor)[-1:]]
            found = NotFinite(
                name, user_site(frame), what, tuple(map(range_of, tensors)), given=bool(unknown) or not tensors,
                before=known[0] if known else None, edited=edits[0] if edits else None,
            )  # fmt: skip
        for key in keys_of(result):
            log.bad[key] = found
        log.last_bad = found
        self._looks = len(log.bad) < 2000

    def around(self, backward: Callable) -> Callable:
        """``torch.autograd.backward``, noting what it frees."""
        return lambda *args, **kwargs: self._pass(backward, args, kwargs)

    def _pass(self, backward: Callable, args: tuple, kwargs: dict) -> Any:
        """Runs a backward pass, and notes what it frees and the first node that makes a NaN."""
        if self._depth:
            return backward(*args, **kwargs)
        given: Any = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        roots = [given] if isinstance(given, torch.Tensor) else list(given)
        every = (node for root in roots for node in nodes_behind(root))
        nodes = list(dict.fromkeys(itertools.islice(every, _MOST_NODES)))
        leaves = [node.variable for node in nodes if hasattr(node, "variable")]
        nodes = [node for node in nodes if not hasattr(node, "variable")]
        keeps = kwargs.get("retain_graph")
        one = Pass(
            user_site(sys._getframe(2)), frozenset(node._sequence_nr() for node in nodes),
            bool(kwargs.get("create_graph")) if keeps is None else bool(keeps),
            frozenset(key for leaf in leaves for key in keys_of(leaf)),
        )  # fmt: skip
        if self.log.first_backward is None and any(root.numel() == 1 for root in roots):
            self.log.first_backward = next((bad for root in roots if (bad := self.log.not_finite(root))), None)
        handles = [node.register_hook(self._looking(node)) for node in nodes] if self._looks else []
        del nodes, leaves, every
        self._depth += 1
        try:
            return backward(*args, **kwargs)
        except BaseException:
            one.failed = True
            raise
        finally:
            self._depth -= 1
            for handle in handles:
                handle.remove()
            self.log.passes.append(one)

    def _looking(self, node: Any) -> Callable:
        name, call = operation_name(node.name()), self.log.node(node)

        def look(out: tuple, given: tuple) -> None:
            if self.log.first_backward is not None:
                return
            for gradient in out:
                if gradient is not None and not is_functorch_wrapped(gradient) and (what := kind_of_bad(gradient)):
                    ranges = [f"the gradient {range_of(one)}" for one in given if one is not None]
                    site = call.site if call is not None else NOWHERE
                    told = call.name if call is not None else name
                    bad = any(one is not None and kind_of_bad(one) for one in given)
                    self.log.first_backward = NotFinite(told, site, what, tuple(ranges), backward=True, given=bad)
                    return

        return look

"""Sees what becomes of tensors while a program runs, for ``why`` (``watch_why``)."""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from course_utils.base.torch_private import is_functorch_wrapped, sequence_number
from course_utils.base.user_code import NOWHERE, Site, user_site
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.report import operation_name
from course_utils.why.log import Call, Cut, Edited, Log, NotFinite, Pass, keys_of

_MOST_NODES = 30_000
"""Of a larger graph, backward is not looked into."""

_PASS, _OPERATION, _NUMBER, _SET, _SWITCH, _BACKWARD, _MAKER = range(7)
_NUMBERS = {"item", "tolist", "numpy", "__float__", "__int__", "__array__"}
_MAKERS = {"tensor", "as_tensor", "from_numpy", "asarray", "FloatTensor", "DoubleTensor"}
_SKIPPED = {
    "dim", "size", "numel", "stride", "is_floating_point", "is_complex", "is_contiguous", "data_ptr", "__repr__",
    "__len__", "__bool__", "__hash__", "__format__", "requires_grad_", "retain_grad", "register_hook", "element_size",
    "ndimension", "storage_offset", "untyped_storage", "__deepcopy__", "is_same_size", "storage", "get_device",
}  # fmt: skip
_READ = {"data", "T", "mT", "H", "mH", "real", "imag"}
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

    Limits: operations of the thread that entered are seen, outside of compiled code. Memory of NumPy's own is not.
    """

    def __init__(self) -> None:
        self.log = Log()
        self._mode = _Watch(self.log)
        self._backward: Callable = torch.autograd.backward

    def __enter__(self) -> "watch_why":
        _latest[:] = [self.log]
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._mode.around(self._backward)  # type: ignore[assignment]
        self._mode.__enter__()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._mode.__exit__(kind, error, traceback)
        torch.autograd.backward = self._backward  # type: ignore[assignment]


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
            plan = self._plans[func] = _plan(func)
        kind, name = plan
        if kind == _PASS:
            return func(*args, **kwargs)
        if kind == _BACKWARD:
            return self._pass(func, args, kwargs) if name == "grad" else func(*args, **kwargs)
        frame = sys._getframe(1)
        if kind == _SWITCH:
            self._off = None if args and args[0] else user_site(frame)
            return func(*args, **kwargs)
        tensors = list(_tensors(args))
        tensors += _tensors(tuple(kwargs.values())) if kwargs else ()
        versions = [_version(tensor) for tensor in tensors]
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
        edited = False
        for tensor, version in zip(tensors, versions, strict=True):
            if _version(tensor) != version:
                edited, site = True, site or user_site(frame)
                for key in keys_of(tensor):
                    log.add_edit(key, Edited(name, site, _version(tensor)))
        if frame.f_code.co_filename.startswith(_OPTIMIZERS):
            return
        if kind == _SET:
            self._set(name, args, site or user_site(frame))
            return
        if kind == _NUMBER:
            self._number(name, tensors[0], out, site or user_site(frame))
            return
        results = [out] if isinstance(out, torch.Tensor) else list(_tensors(out)) if type(out) in (tuple, list) else []
        for result in results:
            if is_functorch_wrapped(result):
                continue
            if not edited and not result._is_view():
                site = site or user_site(frame)
                for key in keys_of(result):
                    log.add_made(key, Call(name, site))
            if not result.requires_grad:
                self._cut(kind, name, frame, tensors, result, args)
            if self._looks and result.is_floating_point() and (edited or not result._is_view()):
                self._look(name, frame, tensors, result)

    def _cut(self, kind: int, name: str, frame: Any, tensors: list, result: torch.Tensor, args: tuple) -> None:
        log = self.log
        if kind == _MAKER and not tensors:
            known = log.number(_number_of(args[0])) if args else None
            if known is not None:
                log.add_cut(result, known)
            return
        for tensor in tensors:
            if tensor is result:
                continue
            if tensor.requires_grad:
                how = "mode" if not torch.is_grad_enabled() else _how(name, kind, result)
                log.add_cut(result, Cut(name, user_site(frame), how, self._off if how == "mode" else None))
                return
        for tensor in tensors:
            known = log.cut(tensor)
            if known is not None:
                log.add_cut(result, known)
                return

    def _number(self, name: str, tensor: torch.Tensor, out: Any, site: Site) -> None:
        cut = self.log.cut(tensor)
        if tensor.requires_grad:
            cut = Cut(name, site, "numpy" if name in ("numpy", "__array__") else "number")
        if cut is not None:
            for number in _numbers_in(out):
                self.log.add_number(number, cut)

    def _set(self, name: str, args: tuple, site: Site) -> None:
        if name == "grad" and args[1] is None:
            latest = self.log.passes[-1] if self.log.passes else None
            for key in keys_of(args[0]):
                self.log.cleared[key] = Call(name, site), latest

    def _look(self, name: str, frame: Any, tensors: list, result: torch.Tensor) -> None:
        """Notes an operation that makes a NaN or an infinity."""
        what = _not_finite(result)
        if not what:
            return
        log = self.log
        known = [bad for tensor in tensors if tensor is not result and (bad := log.not_finite(tensor)) is not None]
        found = next((bad for bad in known if bad.what == what), None)
        if found is None:
            given = [tensor for tensor in tensors if tensor is not result and _not_finite(tensor)]
            unknown = [tensor for tensor in given if log.not_finite(tensor) is None]
            edits = [edit for tensor in unknown for edit in log.edits(tensor)[-1:]]
            found = NotFinite(
                name, user_site(frame), what, tuple(map(range_of, tensors)), given=bool(unknown),
                before=known[0] if known else None, edited=edits[0] if edits else None,
            )  # fmt: skip
        for key in keys_of(result):
            log.bad[key] = found
        log.last_bad = found
        self._looks = len(log.bad) < 2000

    def around(self, backward: Callable) -> Callable:
        """``torch.autograd.backward``, noting what it frees."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            return self._pass(backward, args, kwargs)

        return watched

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
                if gradient is not None and not is_functorch_wrapped(gradient) and (what := _not_finite(gradient)):
                    ranges = [f"the gradient {range_of(one)}" for one in given if one is not None]
                    site = call.site if call is not None else NOWHERE
                    told = call.name if call is not None else name
                    bad = any(one is not None and _not_finite(one) for one in given)
                    self.log.first_backward = NotFinite(told, site, what, tuple(ranges), backward=True, given=bad)
                    return

        return look


def _plan(func: Any) -> tuple[int, str]:
    """What is done about a function, and what it is called."""
    name = getattr(func, "__name__", str(func))
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__", "__delete__"):
        member = getattr(owner, "__name__", "")
        if name == "__get__":
            return (_OPERATION if member in _READ else _PASS), member
        return _SET, member
    if name == "_set_grad_enabled":
        return _SWITCH, name
    if func is torch.autograd.grad or name == "backward":
        return _BACKWARD, name
    if name in _NUMBERS:
        return _NUMBER, name
    if name in _SKIPPED or name.startswith("_record_function"):
        return _PASS, name
    return (_MAKER if name in _MAKERS else _OPERATION), name


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from _tensors(value)


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # made in inference mode
        return -1


def _how(name: str, kind: int, result: torch.Tensor) -> str:
    if name in ("detach", "data", "detach_"):
        return name.rstrip("_")
    if kind == _MAKER:
        return "copy"
    return "operation" if result.is_floating_point() else "dtype"


def _number_of(value: Any) -> object:
    """What a number or array is remembered by; the first of several."""
    return next(_numbers_in(value), None)


def _numbers_in(value: Any) -> Iterator[object]:
    if isinstance(value, float):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _numbers_in(item)
    elif hasattr(value, "__array_interface__"):
        yield "array", value.__array_interface__["data"][0]


def _not_finite(tensor: torch.Tensor) -> str:
    """ "nan", "inf", or "" where every number is finite. The sum tells most times; where it does not, all are asked."""
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return ""
    with torch.no_grad():
        if math.isfinite(tensor.sum().item()):
            return ""
        if tensor.isnan().any():
            return "nan"
        return "inf" if tensor.isinf().any() else ""


def range_of(tensor: torch.Tensor) -> str:
    """The least and the greatest number of a tensor, and how many are not finite, in words."""
    with torch.no_grad():
        flat = tensor.detach().flatten()
        if not flat.numel():
            return "empty"
        if not flat.is_floating_point():
            return f"{flat.min().item()} to {flat.max().item()}"
        finite = flat[flat.isfinite()]
        kinds = [word for word, some in (("NaN", flat.isnan()), ("inf", flat.isinf())) if some.any()]
        if not finite.numel():
            return f"all {' and '.join(kinds)}"
        more = f", with {' and '.join(kinds)}" if kinds else ""
        return f"{finite.min().item():.4g} to {finite.max().item():.4g}{more}"

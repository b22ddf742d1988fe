"""Everything private to PyTorch that the course leans on, and why: names, attributes, names of nodes.

Private is what a release may take away or rename without a word: what begins with ``_``, lives in ``torch._C`` or
another such module, or stands in no documentation. The course imports such names from here
(``from course_utils.base.torch_private import DisableTorchFunction``). Attributes of tensors, nodes and modules are
written out where they are used, and listed here; so is what is asked for as text. Where a name is gone, importing it
says so in one sentence, and ``gone`` lists all that are. Each was there in every release of ``versions.RELEASES``, but
where its line says otherwise.
"""

import functools
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from course_utils.base import versions

if TYPE_CHECKING:  # what classes of the course are made from
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Private:
    """One private thing.

    Attributes:
        where: the path to it, from the module ``torch`` or from one of ``SAMPLES``.
        why: what the course cannot do without it, to stand after "needed for".
        optional: where it is missing, nothing needs it; it is then None.
    """

    where: str
    why: str
    optional: bool = False


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def _tensor() -> torch.Tensor:
    return torch.ones(2, requires_grad=True, device="cpu")


def _leaf_node() -> Any:
    node: Any = (_tensor() * 2).grad_fn
    return node.next_functions[0][0]


def _in_place() -> Any:
    made = _tensor() * 1
    made[:1].mul_(2)
    return made.grad_fn


# What paths may begin with besides torch: things that have what their class does not show.
SAMPLES: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch,
    "tensor": _tensor,
    "storage": lambda: torch.ones(2).untyped_storage(),
    "result": lambda: _tensor() * 2,
    "of_function": lambda: _Same.apply(_tensor()),
    "operation": lambda: torch.ops.aten.add.Tensor,
    "module": lambda: torch.nn.Linear(1, 1),
}

_MODES = "torch.utils._python_dispatch"
_HOOKS = "finding what a hook keeps, and telling a module's hooks from an answer's"

# What is imported from here, by the name that it has here.
NAMES = {
    # Seeing operations
    "TorchDispatchMode": Private(f"{_MODES}.TorchDispatchMode", "seeing each operation"),
    "dispatch_module": Private(_MODES, "refusing compiled code inside a tracker"),
    "get_dispatch_modes": Private(f"{_MODES}._get_current_dispatch_mode_stack", "knowing which modes are on"),
    "disable_dispatch_modes": Private(f"{_MODES}._disable_current_modes", "asking a tensor unseen by a tracker"),
    "flop_dispatch": Private("torch.utils.flop_counter._FlopCounterMode.__torch_dispatch__", "counting FLOPs"),
    "push_dispatch_mode": Private("torch._C._push_on_torch_dispatch_stack", "a tracker of one thread alone"),
    "pop_dispatch_mode": Private("torch._C._pop_torch_dispatch_stack", "leaving trackers in any order"),
    "disabled_torch_dispatch": Private(
        "torch._C._disabled_torch_dispatch_impl", "telling tensors with operations of their own"
    ),
    "DisableTorchFunction": Private("torch._C.DisableTorchFunction", "asking a tensor past its subclass"),
    "DispatchKey": Private("torch._C.DispatchKey", "telling what is composite"),
    "set_guard_complete_hook": Private(
        "torch._C._dynamo.eval_frame.set_guard_complete_hook", "refusing compiled code inside a tracker"
    ),
    # Nodes, what they save, who holds what
    "SavedTensor": Private("torch._C._autograd.SavedTensor", "reading what a node saved without unpacking it"),
    "FunctionBase": Private("torch._C._FunctionBase", "telling a custom Function's node from a built-in one"),
    "BackwardCFunction": Private("torch.autograd.function.BackwardCFunction", "finding a custom Function's node"),
    "storage_use_count": Private("torch._C._storage_Use_Count", "counting who holds a storage or a node"),
    "current_graph_task": Private("torch._C._current_graph_task_id", "telling backward from forward"),
    "sequence_number": Private("torch._C._autograd._get_sequence_nr", "telling new nodes from old ones"),
    # Inside torch.func
    "is_functorch_wrapped": Private(
        "torch._C._functorch.is_functorch_wrapped_tensor", "tensors inside torch.func, which have no storage"
    ),
    "get_unwrapped": Private("torch._C._functorch.get_unwrapped", "the tensor inside one of torch.func"),
    "clear_functorch": Private(
        "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack", "probing outside of the caller's vmap"
    ),
    "tree_leaves": Private("torch.utils._pytree.tree_leaves", "the tensors in a result of any shape"),
    # The profiler, as the allocator's engine
    "profiler_enabled": Private("torch.autograd._profiler_enabled", "refusing to start a second profiler"),
    "RecordFunctionFast": Private("torch._C._profiler._RecordFunctionFast", "marking phases in the profile"),
    "EventType": Private("torch._C._profiler._EventType", "finding allocations in the profile"),
}

# What is written out where it is used: "_base" as `tensor._base`.
ATTRIBUTES = {
    "_version": Private("tensor._version", "telling that a tensor was written to"),
    "_base": Private("tensor._base", "following a view to its tensor"),
    "_is_view": Private("tensor._is_view", "following a view to its tensor"),
    "_use_count": Private("tensor._use_count", "counting who holds a tensor"),
    "_cdata": Private("storage._cdata", "telling storages apart by their address"),
    "_indices": Private("tensor._indices", "the tensors inside a sparse one"),
    "_values": Private("tensor._values", "the tensors inside a sparse one"),
    "_is_zerotensor": Private("tensor._is_zerotensor", "tensors that have no memory"),
    "_backward_hooks": Private("tensor._backward_hooks", _HOOKS),
    "_post_accumulate_grad_hooks": Private("tensor._post_accumulate_grad_hooks", _HOOKS),
    "_backward_pre_hooks": Private("module._backward_pre_hooks", _HOOKS),
    "_forward_hooks": Private("module._forward_hooks", _HOOKS),
    "_forward_pre_hooks": Private("module._forward_pre_hooks", _HOOKS),
    "_modules": Private("module._modules", "a module's parts, past what an answer may have overridden"),
    "_parameters": Private("module._parameters", "a module's parts, past what an answer may have overridden"),
    "_buffers": Private("module._buffers", "a module's parts, past what an answer may have overridden"),
    "_raw_saved_self": Private("result.grad_fn._raw_saved_self", "reading what a node saved, in all its `_raw_saved_`"),
    "_saved_self": Private("result.grad_fn._saved_self", "the values that a node saved, all its `_saved_`"),
    "_raw_saved_tensors": Private("of_function.grad_fn._raw_saved_tensors", "reading what a custom Function saved"),
    "unpack_hook": Private("result.grad_fn._raw_saved_self.unpack_hook", "finding hooks without running them"),
    "register_hooks": Private(
        "result.grad_fn._raw_saved_self.register_hooks", "telling a freed slot from one that was never filled"
    ),
    "_sequence_nr": Private("result.grad_fn._sequence_nr", "telling new nodes from old ones"),
    "_forward_cls": Private("of_function.grad_fn._forward_cls", "the file in which a custom Function was written"),
    "_schema": Private("operation._schema", "knowing whether an operation makes memory, aliases it, or writes to it"),
    "_op": Private("operation._op", "calling an operation without the cost of its wrapper"),
    "_should_skip_dynamo": Private(  # since 2.11; before, no mode loads the compiler
        f"{_MODES}.TorchDispatchMode._should_skip_dynamo", "not loading the compiler", optional=True
    ),
    "ignore_compile_internals": Private(
        f"{_MODES}.TorchDispatchMode.ignore_compile_internals", "refusing compiled code inside a tracker"
    ),
    "lazy_load_decompositions": Private(
        "torch._functorch.vmap.lazy_load_decompositions",
        "telling what torch.func registers from what a student does",
        optional=True,
    ),
    "_impls": Private("torch.library._impls", "finding kernels that a student registers", optional=True),
    "_global_forward_hooks": Private(
        "torch.nn.modules.module._global_forward_hooks", "finding global hooks left behind, all `_global_*_hooks`"
    ),
}

# Modules by name: what the classroom loads before its students, and whose names it watches.
MODULES = (
    *("torch._C", "torch._dynamo", "torch._functorch.vmap", "torch._tensor", "torch.testing._comparison"),
    *("torch.utils._pytree", "torch.utils._python_dispatch"),
)

# Nodes by the names that they have, and how each is made.
NODES: dict[str, Callable[[], Any]] = {
    "AccumulateGrad": _leaf_node,
    "CopySlices": _in_place,
}


def gone() -> list[str]:
    """What this PyTorch does not have of all that: one sentence each on what is gone, who needs it, and what for."""
    told = [
        _told(private.where, private.why, name)
        for name, private in (NAMES | ATTRIBUTES).items()
        if not private.optional and _find(private.where) is None
    ]
    told += [_told(name, "finding this module's names", name) for name in MODULES if not _exists(name)]
    for name, make in NODES.items():
        now = node_name(make())
        if now != name:
            told.append(_told(f"node {name} but {now}", "telling nodes by their names", name))
    return told


def node_name(node: Any) -> str:
    """What the running PyTorch calls a node, without the namespace."""
    return node.name().rpartition("::")[2]


def users(name: str) -> list[str]:
    """The modules of the course in which a name of this module stands."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return [path for path, text in _sources().items() if word.search(text)]


@functools.cache
def _sources() -> dict[str, str]:
    paths = [path for path in sorted(_PACKAGE.rglob("*.py")) if path != Path(__file__).resolve()]
    return {path.relative_to(_PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _told(what: str, why: str, name: str) -> str:
    named = users(name)
    return (
        f"PyTorch {versions.running()} has no {what} (it was there in {versions.tried()}), needed for {why}: "
        f"{', '.join(named) or 'nobody asks for it'}."
    )


def _exists(module: str) -> bool:
    # Not imported: the compiler takes seconds.
    return module in sys.modules or importlib.util.find_spec(module) is not None


def _find(where: str) -> Any:
    """What a path leads to, or None."""
    first, *names = where.split(".")
    found, path, passed = SAMPLES[first](), first, []
    for name in names:
        passed.append(found)  # before 2.13 a custom Function's node is emptied with its result
        path += f".{name}"
        if not hasattr(found, name) and path.startswith("torch."):
            try:
                importlib.import_module(path)  # a module that nobody has loaded yet
            except ImportError:
                return None
        if not hasattr(found, name):
            return None
        found = getattr(found, name)
    return path if found is None else found  # an attribute that holds None is there


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    private = NAMES[name]
    found = _find(private.where)
    if found is None and not private.optional:
        raise ImportError(_told(private.where, private.why, name))
    return found

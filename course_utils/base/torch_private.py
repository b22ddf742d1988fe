"""Everything private to PyTorch that the course leans on, and why: names, attributes, names of nodes.

Private is what a release may take away or rename without a word: what begins with ``_``, lives in ``torch._C`` or
another such module, or stands in no documentation. The course imports such names from here
(``from course_utils.base.torch_private import DisableTorchFunction``). Attributes of tensors, nodes and modules are
written out where they are used, and listed here; so is what is asked for as text. Where a name is gone, importing it
says so in one sentence, and ``gone`` lists all that are. Each was there in every release of ``versions.RELEASES``, but
where its line says otherwise.
"""

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from course_utils.base import versions

if TYPE_CHECKING:  # what classes of the course are made from
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode


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


def _in_place() -> Any:
    made = _tensor() * 1
    made[:1].mul_(2)
    return made.grad_fn


# What paths may begin with: the module, and things that have what their class does not show.
SAMPLES: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch,
    "tensor": _tensor,
    "storage": lambda: torch.ones(2).untyped_storage(),
    "result": lambda: _tensor() * 2,
    "of_function": lambda: _Same.apply(_tensor()),
    "operation": lambda: torch.ops.aten.add.Tensor,
    "module": lambda: torch.nn.Linear(1, 1),
}

_MODES, _FUNC = "torch.utils._python_dispatch", "torch._C._functorch"

# What is imported from here, by the name that it has here: the path to it, and what it is needed for.
NAMES = {
    # Seeing operations
    "TorchDispatchMode": (f"{_MODES}.TorchDispatchMode", "seeing each operation"),
    "get_dispatch_modes": (f"{_MODES}._get_current_dispatch_mode_stack", "knowing which modes are on"),
    "disable_dispatch_modes": (f"{_MODES}._disable_current_modes", "asking a tensor unseen by a tracker"),
    "flop_dispatch": ("torch.utils.flop_counter._FlopCounterMode.__torch_dispatch__", "counting FLOPs"),
    "push_dispatch_mode": ("torch._C._push_on_torch_dispatch_stack", "a tracker of one thread alone"),
    "pop_dispatch_mode": ("torch._C._pop_torch_dispatch_stack", "leaving trackers in any order"),
    "disabled_torch_dispatch": (
        "torch._C._disabled_torch_dispatch_impl",
        "telling tensors with operations of their own",
    ),
    "DisableTorchFunction": ("torch._C.DisableTorchFunction", "asking a tensor past its subclass"),
    "DispatchKey": ("torch._C.DispatchKey", "telling what is composite"),
    # Nodes, what they save, who holds what
    "SavedTensor": ("torch._C._autograd.SavedTensor", "reading what a node saved without unpacking it"),
    "FunctionBase": ("torch._C._FunctionBase", "telling a custom Function's node from a built-in one"),
    "BackwardCFunction": ("torch.autograd.function.BackwardCFunction", "finding a custom Function's node"),
    "storage_use_count": ("torch._C._storage_Use_Count", "counting who holds a storage"),
    "current_graph_task": ("torch._C._current_graph_task_id", "telling backward from forward"),
    "current_autograd_node": ("torch._C._current_autograd_node", "the node that backward is at"),
    "sequence_number": ("torch._C._autograd._get_sequence_nr", "telling new nodes from old ones"),
    # Inside torch.func
    "is_functorch_wrapped": (
        f"{_FUNC}.is_functorch_wrapped_tensor",
        "tensors inside torch.func, which have no storage",
    ),
    "get_unwrapped": (f"{_FUNC}.get_unwrapped", "the tensor inside one of torch.func"),
    "clear_functorch": (
        "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack",
        "probing outside of the caller's vmap",
    ),
    "tree_leaves": ("torch.utils._pytree.tree_leaves", "the tensors in a result of any shape"),
    "tree_map": ("torch.utils._pytree.tree_map", "wrapping the tensors in a result of any shape"),
}

# What is written out where it is used, `tensor._base`: by what it is needed for, the paths to it.
ATTRIBUTES = {
    "telling that a tensor was written to": "tensor._version",
    "following a view to its tensor": "tensor._base tensor._is_view",
    "counting who holds a tensor": "tensor._use_count",
    "telling storages apart by their address": "storage._cdata",
    "the tensors inside a sparse one": "tensor._indices tensor._values",
    "tensors that have no memory": "tensor._is_zerotensor",
    "finding what a hook keeps, and telling a module's hooks from an answer's": (
        "tensor._backward_hooks tensor._post_accumulate_grad_hooks "
        "module._backward_pre_hooks module._forward_hooks module._forward_pre_hooks"
    ),
    "finding global hooks left behind, all `_global_*_hooks`": "torch.nn.modules.module._global_forward_hooks",
    "a module's parts, past what an answer may have overridden": "module._modules module._parameters module._buffers",
    "reading what a node saved, in all its `_raw_saved_`": "result.grad_fn._raw_saved_self",
    "the values that a node saved, all its `_saved_`": "result.grad_fn._saved_self",
    "reading what a custom Function saved": "of_function.grad_fn._raw_saved_tensors",
    "finding hooks without running them": "result.grad_fn._raw_saved_self.unpack_hook",
    "telling a freed slot from one that was never filled": "result.grad_fn._raw_saved_self.register_hooks",
    "telling new nodes from old ones": "result.grad_fn._sequence_nr",
    "the file in which a custom Function was written": "of_function.grad_fn._forward_cls",
    "knowing whether an operation makes memory, aliases it, or writes to it": "operation._schema",
    "calling an operation without the cost of its wrapper": "operation._op",
    "letting compiled code be below a tracker": f"{_MODES}.TorchDispatchMode.ignore_compile_internals",
}
# Used where it is there, and not missed where it is not: `_should_skip_dynamo` of modes (since 2.11), so that the first
# operation loads no compiler; `lazy_load_decompositions` and `torch.library._impls`, to tell what torch.func registers
# from what a student does.

# Modules by name: what the classroom loads before its students, and whose names it watches.
MODULES = (
    *("torch._C", "torch._dynamo", "torch._functorch.vmap", "torch._tensor"),
    *("torch.utils._pytree", "torch.utils._python_dispatch"),
)

# Nodes by the names that they have, and how each is made.
NODES: dict[str, Callable[[], Any]] = {
    "AccumulateGrad": lambda: (_tensor() * 2).grad_fn.next_functions[0][0],  # type: ignore[union-attr]  # a result has one
    "CopySlices": _in_place,
}


def gone() -> list[str]:
    """What this PyTorch does not have of all that: one sentence each on what is gone, and what for it is needed."""
    listed = [*NAMES.values(), *((path, why) for why, paths in ATTRIBUTES.items() for path in paths.split())]
    told = [_told(path, why) for path, why in listed if _find(path) is None]
    # Not imported: the compiler takes seconds.
    told += [_told(name, "finding this module's names") for name in MODULES if importlib.util.find_spec(name) is None]
    named = {name: node_name(make()) for name, make in NODES.items()}
    renamed = [f"node {name} but {now}" for name, now in named.items() if now != name]
    return told + [_told(what, "telling nodes by their names") for what in renamed]


def node_name(node: Any) -> str:
    """What the running PyTorch calls a node, without the namespace."""
    return node.name().rpartition("::")[2]


def _told(what: str, why: str) -> str:
    release, tried = versions.running(), versions.tried()
    return f"PyTorch {release} has no {what} (it was there in {tried}), needed for {why}."


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
    found = _find(NAMES[name][0])
    if found is None:
        raise ImportError(_told(*NAMES[name]))
    return found

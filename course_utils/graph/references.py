"""How many references keep a thing alive, seen from outside: Python objects, tensors, storages and the nodes of the
recorded graph (``Holdings``).

PyTorch keeps a tensor, a storage or a node alive by two counters: the reference count of its Python object and the use
count of its C++ object. While both exist, each side also holds the other once. ``Holdings.count`` takes these mutual
references and the caller's own away, so that what is left is the number of holders somebody else would have to drop.
"""

import ctypes
import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import torch

from course_utils.base.torch_private import (
    DisableTorchFunction,
    FunctionBase,
    disable_dispatch_modes,
    storage_use_count,
)

Node = torch.autograd.graph.Node


class Holdings:
    """Keeps each thing under study alive by exactly one reference, so that the others can be counted.

    Use one instance for one study and drop it: it keeps what was added to it alive.
    """

    def __init__(self) -> None:
        self._held: dict[int, list[Any]] = {}

    def add(self, thing: object) -> int:
        """Holds a thing once, however often it is added; returns the key to ask for it by."""
        key = id(thing)
        if key not in self._held:
            self._held[key] = [thing]
        return key

    def __contains__(self, key: int) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[int]:
        """The keys of everything held now."""
        return iter(tuple(self._held))

    def get(self, key: int) -> Any:
        """The thing itself. Drop what this returns before asking for its ``count``."""
        return self._held[key][0]

    def count(self, key: int) -> int:
        """The number of references to a thing that are not this object's: from variables, containers, tensors, nodes.

        Raises:
            NotImplementedError: the thing is a node, and this PyTorch does not let its references be counted
                (``can_count_nodes`` is False).
        """
        return sum(self.python_and_other(key))

    def python_and_other(self, key: int) -> tuple[int, int]:
        """The same number in two parts: references to the Python object, and uses from C++.

        Raises:
            NotImplementedError: as ``count``.
        """
        box = self._held[key]
        python = sys.getrefcount(box[0]) - _HELD_IN_A_BOX
        kind: Any = type(box[0])
        family = _family(kind)
        if family == "plain":
            return python, 0
        read = _readers()[family]
        if read is None:
            raise NotImplementedError("This PyTorch does not let the references to a node be counted.")
        uses = read(box[0])
        # One use is the Python object's own; while there are others, they in turn hold the Python object.
        owner = _owner_references()[family] if uses > 1 else 0
        return python - owner, uses - 1


# How often a thing that only a box holds is referenced while its count is asked for: the box, and the argument (which
# newer Pythons borrow).
_BOX = [object()]
_HELD_IN_A_BOX = sys.getrefcount(_BOX[0])


def is_node(thing: Any) -> bool:
    """Whether a thing is a node of the recorded graph: what ``tensor.grad_fn`` returns."""
    kind: Any = type(thing)
    return _family(kind) in ("node", "function")


@functools.lru_cache(maxsize=4096)
def _family(kind: Any) -> str:
    # By type and not by isinstance: weak proxies pretend to be what they point at.
    if issubclass(kind, torch.Tensor):
        return "tensor"
    if issubclass(kind, torch.UntypedStorage):
        return "storage"
    if issubclass(kind, FunctionBase):
        return "function"
    return "node" if issubclass(kind, Node) else "plain"


@functools.cache
def _readers() -> dict[str, Callable[[Any], int] | None]:
    """What reads the use count, by family."""
    node, function = _node_readers()
    return {"tensor": _tensor_uses, "storage": _storage_uses, "node": node, "function": function}


def _tensor_uses(tensor: torch.Tensor) -> int:
    return tensor._use_count()  # type: ignore[attr-defined]  # not in PyTorch's stubs


def _storage_uses(storage: torch.UntypedStorage) -> int:
    return storage_use_count(storage._cdata)


@functools.cache
def can_count_nodes() -> bool:
    """Whether the references to a node can be counted in this PyTorch (they are not part of its interface)."""
    return None not in _node_readers()


@contextmanager
def probing_alone() -> Iterator[None]:
    """Outside of whatever the caller is inside of: modes, transforms, saved-tensor hooks and devices."""
    from course_utils.base.torch_private import clear_functorch  # loads torch.func

    with (
        clear_functorch(),
        DisableTorchFunction(),
        disable_dispatch_modes(),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield


def _probes() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A leaf, a result of a built-in operation and one of a custom Function; nothing is saved for their backward."""
    leaf = torch.zeros(1, requires_grad=True, device="cpu", dtype=torch.float32)
    return leaf, leaf + 1, _Same.apply(leaf)


@functools.cache
def _owner_references() -> dict[str, int]:
    """How many references the C++ side holds on the Python object while it has other users: 0 or 1, by PyTorch version.

    Found out on things whose holders are known.
    """
    with probing_alone():
        leaf, made, by_function = _probes()
        keeps = [made + by_function]  # its graph keeps them all from C++
        held: dict[str, list[Any]] = {
            "tensor": [leaf],
            "storage": [leaf.untyped_storage()],
            "node": [made.grad_fn],
            "function": [by_function.grad_fn],
        }
        del leaf, made, by_function
        owners = {family: sys.getrefcount(box[0]) - _HELD_IN_A_BOX for family, box in held.items()}
        keeps.clear()
    return owners


@functools.cache
def _node_readers() -> tuple[Callable[[Any], int] | None, Callable[[Any], int] | None]:
    """Functions that read the use count of a built-in node and of a custom function's node, None where not known.

    PyTorch offers no call for it. Where the Python object keeps its pointer is fixed by
    https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/python_cpp_function.h#L15 and
    https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/python_function.h#L81. A reader is used only
    if the sizes of these structures are the known ones and it counts right on nodes whose holders are known.
    """
    word = ctypes.sizeof(ctypes.c_void_p)
    header = object.__basicsize__
    function_end = FunctionBase.__basicsize__
    with probing_alone():
        _, made, by_function = _probes()
        extra = type(made.grad_fn).__basicsize__ - header
        readers: list[Callable[[Any], int] | None] = []
        for at, probe in ((header, made), (function_end - word, by_function)):
            if extra == word:  # an intrusive pointer: the count lies in the node
                reader = functools.partial(_read_intrusive, at=at)
            elif extra == 2 * word:  # a shared pointer: object, then control block
                reader = functools.partial(_read_shared, at=at + word if at == header else at)
            else:
                reader = None
            readers.append(None if reader is None else _checked(reader, probe))
    return readers[0], readers[1]


def _read_intrusive(node: object, at: int) -> int:
    pointer = ctypes.c_void_p.from_address(id(node) + at).value
    return storage_use_count(pointer) if pointer else -1


def _read_shared(node: object, at: int) -> int:
    block = ctypes.c_void_p.from_address(id(node) + at).value
    if not block:
        return -1
    count = ctypes.c_int32.from_address(block + ctypes.sizeof(ctypes.c_void_p)).value
    # The C++ library of macOS stores the number of owners less one.
    return count + (sys.platform == "darwin")


def _checked(reader: Callable[[Any], int], probe: torch.Tensor) -> Callable[[Any], int] | None:
    """The reader if it counts right, made to count the Python object as one use in every PyTorch."""
    alone = reader(probe.grad_fn)
    user = probe + 1  # its node points at the probe's node once
    once = reader(probe.grad_fn)
    other = probe + probe  # and this one twice
    thrice = reader(probe.grad_fn)
    del user
    twice = reader(probe.grad_fn)
    del other
    if alone not in (1, 2) or (once, thrice, twice) != (alone + 1, alone + 3, alone + 2):
        return None
    return reader if alone == 2 else lambda node: reader(node) + 1


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def tensor_classes() -> set[type[torch.Tensor]]:
    """``torch.Tensor`` and every class below it. By type and not by isinstance: see ``_family``."""
    found, waiting = {torch.Tensor}, [torch.Tensor]
    while waiting:
        new = set(waiting.pop().__subclasses__()) - found
        found |= new
        waiting.extend(new)
    return found


def live_objects() -> tuple[list[torch.Tensor], list[FunctionType | MethodType]]:
    """Every tensor that has a Python object, and every function with variables of its own or bound to an object.

    Tensors that only C++ holds are among them, since their Python objects live as long as they do. Slow: looks at all
    objects. The lists are one more reference to each thing in them: drop them before counting.
    """
    tensors = tensor_classes()
    kinds: set[type] = {*tensors, FunctionType, MethodType}
    found = [thing for thing in gc.get_objects() if type(thing) in kinds]
    return (
        [thing for thing in found if type(thing) in tensors],
        [thing for thing in found if type(thing) is MethodType or (type(thing) is FunctionType and thing.__closure__)],
    )

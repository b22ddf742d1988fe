"""The flags of PyTorch 0.1 to 0.3, emulated on today's engine (``Variable``).

Until 0.3 a ``Variable`` wrapped a tensor and had two flags, ``requires_grad`` and ``volatile``. ``volatile`` marked an
input of a computation that would never see a backward pass. 0.4 took it out and put ``torch.no_grad()`` in its place.
PyTorch 0.3 installs on no current Python, so here its rules act on tensors of today: the flags are those of 0.3, the
values, graphs and bytes are real.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_utils.base import explain
from course_utils.base.text import describe
from course_utils.base.torch_private import tree_leaves, tree_map


class Variable:
    """A tensor with the two flags of 0.3.

    Takes part in today's operations: ``a * b``, ``torch.exp(a)``, ``a.sum()``, and ``model(a)`` for an ``nn.Module``,
    whose parameters count as Variables with their own ``requires_grad``. The result of an operation is a Variable:

    - one volatile input makes it volatile and unflagged, against any number of flagged inputs; it has no ``grad_fn``
      and keeps nothing for a backward pass;
    - without a volatile input it requires grad if one of its inputs does, and is recorded as today.

    Example:
        >>> weight = Variable(torch.ones(3), requires_grad=True)
        >>> weight * Variable(torch.ones(3))
        Variable(f32[3], requires_grad=True, volatile=False)
        >>> weight * Variable(torch.ones(3), volatile=True)
        Variable(f32[3], requires_grad=False, volatile=True)

    Args:
        data: a tensor of any shape, dtype and device. The Variable uses its memory and not its history.
        requires_grad: whether gradients are wanted; floating and complex dtypes only.
        volatile: whether this is an input of a computation without a backward pass.

    Raises:
        RuntimeError: both flags are True, in the words of 0.3.
        TypeError: ``data`` is no tensor.

    Limits: in-place operations are refused (between volatile and other Variables, 0.3 itself had them wrong for a
    while: https://github.com/pytorch/pytorch/pull/1506). Tensors that are no parameters could not be mixed with
    Variables in 0.3; here they count as Variables that are not volatile. 0.3 had no grad mode, so ``torch.no_grad()``
    has no effect on operations with Variables.

    Source: https://github.com/pytorch/pytorch/blob/v0.3.1/torch/autograd/variable.py,
    https://github.com/pytorch/pytorch/blob/v0.3.1/torch/csrc/autograd/python_variable.cpp,
    https://github.com/pytorch/pytorch/blob/v0.3.1/docs/source/notes/autograd.rst
    """

    def __init__(self, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(
                explain(
                    f"Variable({describe(data, 40)}).",
                    "a tensor.",
                    "A Variable of 0.3 was a wrapper around a tensor.",
                    "Variable(torch.ones(3)), or variable.data for the tensor inside a Variable.",
                )
            )
        if requires_grad and volatile:
            raise RuntimeError("Variable can't be volatile and require_grad at the same time!")
        self._tensor = data.detach().requires_grad_(requires_grad)
        self._volatile = volatile

    @property
    def data(self) -> Tensor:
        """The tensor inside, on the same memory, without history."""
        return self._tensor.data

    @property
    def grad(self) -> "Variable | None":
        """The gradient that ``backward`` collected, or None."""
        gradient = self._tensor.grad
        return None if gradient is None else _variable(gradient, volatile=False)

    @property
    def grad_fn(self) -> torch.autograd.graph.Node | None:
        """The operation that made this; None for a leaf, and for every volatile result."""
        return self._tensor.grad_fn

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted. Can be set on leaves only; 0.3 did not look at ``volatile`` here."""
        return self._tensor.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._tensor.grad_fn is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        self._tensor.requires_grad = value

    @property
    def volatile(self) -> bool:
        """Whether results of operations on this are volatile, too. Can be set on leaves only.

        A volatile result has no history and is a leaf. 0.3 did not look at ``requires_grad`` here; where both were
        set by hand, volatile won.
        """
        return self._volatile

    @volatile.setter
    def volatile(self, value: bool) -> None:
        if self._tensor.grad_fn is not None:
            raise RuntimeError("volatile can only be set on leaf variables")
        self._volatile = bool(value)

    def detach(self) -> "Variable":
        """A Variable on the same memory without history and unflagged; volatile if this one is."""
        return _variable(self._tensor.detach(), self._volatile)

    def detach_(self) -> None:
        """Makes this Variable an unflagged leaf; ``volatile`` stays as it is."""
        self._tensor.detach_()

    def backward(self, gradient: "Variable | Tensor | None" = None, retain_graph: bool = False) -> None:
        """Fills ``grad`` of the flagged leaves.

        Args:
            gradient: of what comes after, in this Variable's shape; None for a Variable of one element.
            retain_graph: keep what the graph has saved.

        Raises:
            RuntimeError: this Variable is volatile, or as ``torch.Tensor.backward``.
        """
        if self._volatile:
            raise RuntimeError("element 0 of variables tuple is volatile")
        self._tensor.backward(_unwrapped(gradient), retain_graph=retain_graph)

    def __repr__(self) -> str:
        return f"Variable({describe(self._tensor)}, requires_grad={self.requires_grad}, volatile={self.volatile})"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for every operation that a Variable takes part in: the rule of 0.3."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place or kwargs.get("inplace"):
            raise NotImplementedError(
                explain(
                    f"The in-place operation {name} on a Variable.",
                    "an operation that makes a new Variable.",
                    "What in-place operations did to the volatile flag changed between the old versions.",
                    f"{name.rstrip('_')}, without the underscore." if in_place else f"{name} with inplace=False.",
                )
            )
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Variable)]
        volatile = any(variable.volatile for variable in inputs)
        with torch.set_grad_enabled(not volatile):
            result = func(*_unwrapped(args), **_unwrapped(kwargs))
        return _wrapped(result, volatile, inputs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle look for such names before there is a tensor
            raise AttributeError(f"Variable has no attribute {name!r}")
        value = getattr(self._tensor, name)
        if not callable(value):
            return _wrapped(value, self._volatile, [self])
        method = getattr(Tensor, name)
        return lambda *args, **kwargs: self.__torch_function__(method, (), (self, *args), kwargs)

    def __len__(self) -> int:
        return len(self._tensor)


def _operator(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def apply(self: Variable, *others: Any) -> Any:
        return self.__torch_function__(method, (), (self, *others))

    apply.__name__ = name
    return apply


_ARITHMETIC = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul", "pow")
for _name in (*_ARITHMETIC, "neg", "getitem", "gt", "lt", "ge", "le"):
    # Python looks operators up on the class, past __getattr__.
    setattr(Variable, f"__{_name}__", _operator(f"__{_name}__"))


def _variable(tensor: Tensor, volatile: bool) -> Variable:
    """A Variable around the tensor itself, with its history."""
    variable = Variable.__new__(Variable)
    variable._tensor, variable._volatile = tensor, volatile
    return variable


def _unwrapped(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf._tensor if isinstance(leaf, Variable) else leaf, tree)


def _wrapped(tree: Any, volatile: bool, inputs: list[Variable]) -> Any:
    """The tensors in a result as Variables; ``x.contiguous()`` and its like may hand back x itself."""
    same = {id(variable._tensor): variable for variable in inputs}
    return tree_map(
        lambda leaf: (same.get(id(leaf)) or _variable(leaf, volatile)) if isinstance(leaf, Tensor) else leaf, tree
    )

"""Programs that run on PyTorch and on an engine alike: how they are run (``outcome``), and random ones (``drawn``).

A program is Python text. Its tensors have the same methods here and there; what belongs to neither is called ``lib``.
"""

import contextlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

TORCH = SimpleNamespace(
    tensor=lambda data, requires_grad=False: torch.tensor(data, dtype=torch.float64, requires_grad=requires_grad),
    no_grad=torch.no_grad,
)
ERROR = "RuntimeError"


@dataclass(frozen=True)
class Program:
    """What is run.

    Attributes:
        lines: statements, one each; an indented one stands in its own text.
        given: the leaves by name, each with its values and whether it requires grad.
    """

    lines: tuple[str, ...]
    given: dict[str, tuple[np.ndarray, bool]]


def outcome(lib: Any, program: Program) -> dict[str, Any]:
    """The values and the gradients of all tensors at the end; or where it ended with a RuntimeError."""
    space = {"lib": lib} | {name: lib.tensor(values.copy(), flag) for name, (values, flag) in program.given.items()}
    for number, line in enumerate(program.lines):
        if lib is TORCH:  # whose y.backward(g) loads sympy at a process's first call, which takes seconds
            line = re.sub(r"(\w+)\.backward\(([\w.:\[\]]+)\)", r"(\1 * \2).sum().backward()", line)
        try:
            exec(line, space)
        except (NotImplementedError, RecursionError):  # they are RuntimeErrors, and none that an engine raises
            raise
        except RuntimeError:
            return {ERROR: number}
    tensors = {name: value for name, value in space.items() if name.startswith("t")}
    found = {name: array(value.data) for name, value in tensors.items()}
    found |= {f"{name}.requires_grad": bool(value.requires_grad) for name, value in tensors.items()}
    return found | {f"{name}.grad": array(value.grad) for name, value in tensors.items() if keeps(value)}


def keeps(tensor: Any) -> bool:
    """Whether it may be asked for its ``.grad``: torch warns where an inner tensor keeps none."""
    return not isinstance(tensor, torch.Tensor) or tensor.is_leaf or tensor.retains_grad


def array(value: Any) -> np.ndarray | None:
    """What a tensor or a gradient holds, copied; None for None."""
    if value is None:
        return None
    return np.array(value.detach().numpy() if isinstance(value, torch.Tensor) else value, dtype=float)


def difference(found: dict[str, Any], right: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first entry in which two outcomes differ, with what is right and what was found; None where they agree.

    Torch's outcome names the inner tensors that keep no gradient by leaving them out.
    """
    if ERROR in found or ERROR in right:
        rows = [(ERROR, right.get(ERROR), found.get(ERROR))]
        return next(((name, one, other) for name, one, other in rows if one != other), None)
    return next(((name, one, found[name]) for name, one in right.items() if not agree(found[name], one)), None)


def agree(found: Any, right: Any, tolerance: float = 1e-12) -> bool:
    """Whether two values are the same: shapes, and numbers up to the tolerance, of their size where that is above 1."""
    if found is None or right is None:
        return found is right
    if isinstance(right, (bool, int, str)):
        return found == right
    found, right = np.asarray(found), np.asarray(right)
    return found.shape == right.shape and bool(np.all(np.abs(found - right) <= tolerance * np.maximum(1, abs(right))))


# -------------------------------------------------------------------------------------------------- random programs

SHAPES = ((3, 2), (2, 3), (3, 1), (1, 2), (2,), (3,), ())
KINDS = "expand detach no_grad edit retain hook repeat"  # beside operations on tensors that are used again


def drawn(seed: int, kinds: str = KINDS, length: int = 10) -> Program:
    """A random program. It is run with PyTorch while it is drawn, and ends where that raises an error."""
    return _Draw(random.Random(seed), kinds.split()).program(length)


class _Draw:
    def __init__(self, source: random.Random, kinds: Sequence[str]) -> None:
        self.source, self.kinds = source, kinds
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"lib": TORCH}
        self.given: dict[str, tuple[np.ndarray, bool]] = {}
        self.retained = set[str]()

    def program(self, length: int) -> Program:
        for _ in range(self.source.randint(3, 5)):
            self._leaf()
        ended = False
        while len(self.lines) < length and not ended:
            line = self._line()
            ended = line is not None and not self._run(line)
        for _ in range(0 if ended else self.source.randint(1, 3 if "repeat" in self.kinds else 1)):
            if not self._backward():
                break
        return Program(tuple(self.lines), self.given)

    def _leaf(self) -> None:
        name, shape = self._new(), self.source.choice(SHAPES)
        values = np.array([self.source.gauss(0, 1) for _ in range(int(np.prod(shape)))]).reshape(shape)
        self.given[name] = values, not self.given or self.source.random() < 0.7
        self.space[name] = TORCH.tensor(*self.given[name])

    def _new(self) -> str:
        return f"t{sum(name.startswith('t') for name in self.space)}"

    def _run(self, line: str) -> bool:
        self.lines.append(line)
        with contextlib.suppress(RuntimeError):
            exec(line, self.space)
            return True
        return False

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {name: value for name, value in self.space.items() if name.startswith("t")}

    def _line(self) -> str | None:
        """A line that may come next; None where what was thought of does not fit."""
        kind = self.source.choice(("operation",) * 5 + (*self.kinds,))
        return getattr(self, f"_{kind}", self._operation)()

    def _operation(self) -> str | None:
        expression = self._expression()
        return expression and f"{self._new()} = {expression}"

    def _expression(self) -> str | None:
        a, b = self._pick(), self._pick()
        tensors = self._tensors()
        x, y = tensors[a], tensors[b]
        if not self._broadcasts(x, y) and self.source.random() < 0.5:
            return f"{a} @ {b}" if x.dim() == y.dim() == 2 and x.shape[1] == y.shape[0] else None
        if self._broadcasts(x, y) and self.source.random() < 0.6:
            same_shape = x.shape == y.shape
            if not same_shape and "expand" not in self.kinds:
                return None
            signs = ["+", "-", *["*"] * 2 * bool((x * y).abs().max() < 20), *["/"] * bool(y.abs().min() > 0.3)]
            return f"{a} {self.source.choice(signs)} {b}"
        others = [f"{a}.sum()"] * bool(x.dim()) + [f"{a}.exp()"] * bool(x.max() < 2)
        others += [f"{a}.log()"] * bool(x.min() > 0.3) + [f"{a}.T * 0.5"] * (x.dim() == 2)  # its view is nobody's
        unary = f"{a}.tanh()", f"{a}.relu()", f"{a} * 0.5", f"1.0 - {a}", f"-{a}", f"1.0 / ({a} ** 2 + 1.0)"
        return self.source.choice([*unary, *others])

    def _pick(self) -> str:
        """A tensor; late ones more often, and all of them more than once."""
        names = list(self._tensors())
        return self.source.choice(names + names[-3:])

    @staticmethod
    def _broadcasts(x: torch.Tensor, y: torch.Tensor) -> bool:
        pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
        return all(one == other or 1 in (one, other) for one, other in pairs)

    def _detach(self) -> str:
        return f"{self._new()} = {self._pick()}.detach()"

    def _no_grad(self) -> str | None:
        expression = self._expression()
        return expression and f"with lib.no_grad():\n    {self._new()} = {expression}"

    def _edit(self) -> str | None:
        name, other = self._pick(), self._pick()
        x, y = self._tensors()[name], self._tensors()[other]
        place = x.untyped_storage().data_ptr()
        sharing = [one for one in self._tensors().values() if one.untyped_storage().data_ptr() == place]
        if x.abs().max() > 10 or any(one._is_view() and one.requires_grad for one in sharing):
            return None  # PyTorch, too, refuses to edit what split() gave
        fits = self._broadcasts(x, y) and (x + y).shape == x.shape and y.abs().max() < 10
        add = fits and self.source.random() < 0.6
        edit = f"{name}.add_({other})" if add else f"{name}.mul_(1.5)"
        if self.source.random() < 0.4:
            return f"with lib.no_grad():\n    {edit}"
        recorded = x.requires_grad or (add and y.requires_grad)
        alone = len(sharing) == 1
        error = x.is_leaf and x.requires_grad
        if error and self.source.random() < 0.7:
            return None  # it ends the program
        return edit if not recorded or error or (alone and name not in self.retained) else None

    def _retain(self) -> str | None:
        name = self._pick()
        if not self._tensors()[name].requires_grad and self.source.random() < 0.8:
            return None
        self.retained.add(name)
        return f"{name}.retain_grad()"

    def _hook(self) -> str | None:
        name = self._pick()
        if not self._tensors()[name].requires_grad or self._tensors()[name]._is_view():
            return None  # PyTorch calls the hook of a piece that nobody used, with None
        factor = self.source.choice(("2.0", "-1.0", "0.5"))
        return f"{name}.register_hook(lambda g: g * {factor})"

    def _backward(self) -> bool:
        """Sums what is there into a loss, or takes the one before, and goes back; False where that was an error."""
        again = [name for name in self.space if name.startswith("loss")]
        loss = f"loss{len(again)}"
        if again and self.source.random() < 0.5:
            loss = again[-1]
        else:
            chosen = [name for name, x in self._tensors().items() if x.requires_grad or self.source.random() < 0.2]
            chosen = self.source.sample(chosen, min(len(chosen), self.source.randint(1, 4)))
            # Not a.sum() + b.sum() of 0-dim leaves: PyTorch gives both .grad one memory, and they grow together.
            terms = [f"{name}.sum()" if self.space[name].dim() else name for name in chosen]
            if not self._run(f"{loss} = {' + '.join(terms or ['t0'])}"):
                return False
        return self._run(f"{loss}.backward(retain_graph={self.source.random() < 0.4})")

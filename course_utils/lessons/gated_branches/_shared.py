"""What several exercises of lesson 06, gated_branches, look at."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from course_utils.checks.trial import Missed, Trial


class _Branch(nn.Module):
    """A branch that notes each call: what came in, and whether the call was recorded."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.inputs: list[Tensor] = []
        self.grad_modes: list[bool] = []
        self.flagged: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.inputs.append(x.detach())
        self.grad_modes.append(torch.is_grad_enabled())
        self.flagged.append(all(parameter.requires_grad for parameter in self.parameters()))
        return self.layers(x)


class _Constant(nn.Module):
    """Adds a value that is not finite to every other column, as a branch does that has overflowed."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        bad = torch.zeros_like(x)
        bad[:, ::2] = self.value
        return x + bad


def _branches(trial: Trial, kind: str, *last: nn.Module) -> tuple[_Branch, _Branch, Tensor]:
    """Two branches of one architecture with other weights, and a flagged input for them."""
    rows, width, out = trial.integer(3, 6), trial.integer(2, 4), trial.integer(5, 7)

    def layers() -> list[nn.Module]:
        if kind == "vectors":
            return [nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out), *last]
        if kind == "same width":
            return [nn.Linear(width, width), nn.Tanh(), *last]
        return [nn.Conv2d(width, 4, 3), nn.Tanh(), nn.Conv2d(4, out, 1), *last]

    a, b = (trial.fill(_Branch(*layers()).double()) for _ in range(2))
    shape = (rows, width, 5, 4) if kind == "images" else (rows, width)
    return a, b, trial.randn(*shape, requires_grad=True)


def _gradients(result: Tensor, upstream: Tensor, wanted: list[Tensor]) -> list[Tensor | None]:
    if not result.requires_grad:
        return [None] * len(wanted)
    return list(torch.autograd.grad(result, wanted, upstream, retain_graph=True, allow_unused=True))


def _expect_gradients(got: Tensor, expected: Tensor, named: dict[str, Tensor], trial: Trial) -> None:
    """The two results pass the same gradient on to every tensor that is named."""
    upstream = trial.randn(*expected.shape)
    wanted, names = list(named.values()), list(named)
    for name, found, right in zip(
        names, _gradients(got, upstream, wanted), _gradients(expected, upstream, wanted), strict=True
    ):
        if right is None:
            continue
        if found is None:
            raise Missed("detached", expected=f"a gradient for {name}", got="none")
        if not torch.allclose(found, right):
            raise Missed(expected=f"the gradient of {name} in the plain network", got="another gradient")


def _flops(function: Callable[[], Tensor]) -> int:
    """FLOPs of a forward and a backward pass."""
    with FlopCounterMode(display=False) as counter:
        result = function()
        if result.requires_grad:
            result.sum().backward()
    return counter.get_total_flops()


def _forget_gradients(*branches: nn.Module) -> None:
    for branch in branches:
        branch.zero_grad(set_to_none=True)

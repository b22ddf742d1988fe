"""What several exercises of lesson 06, gated_branches, look at."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Missed, Trial, expect, gradient, same
from course_utils.measure.flops import FlopCounterMode


class Branch(nn.Module):
    """A branch that notes each call: what came in, and whether the call was recorded. ``layers`` is not counted."""

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


class _Cast(nn.Module):
    """What comes in, in another dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)


def with_casts(branch: Branch) -> Branch:
    """The branch (of float64), as one that takes every dtype and returns float16."""
    return Branch(_Cast(torch.float64), branch.layers, _Cast(torch.float16))


def branches(trial: Trial, kind: str, *last: nn.Module) -> tuple[Branch, Branch, Tensor]:
    """Two branches of one architecture with other weights, and a flagged input for them."""
    rows, width, out = trial.integer(3, 6), trial.integer(2, 4), trial.integer(5, 7)
    layers: dict[str, Callable[[], tuple[nn.Module, ...]]] = {
        "vectors": lambda: (nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out)),
        "same width": lambda: (nn.Linear(width, width), nn.Tanh()),
        "images": lambda: (nn.Conv2d(width, 4, 3), nn.Tanh(), nn.Conv2d(4, out, 1)),
    }
    a, b = (trial.fill(Branch(*layers[kind](), *last).double()) for _ in range(2))
    shape = (rows, width, 5, 4) if kind == "images" else (rows, width)
    return a, b, trial.randn(*shape, requires_grad=True)


def expect_gradients(trial: Trial, got: Tensor, expected: Tensor, named: dict[str, Tensor]) -> None:
    """The two results pass the same gradient on to every tensor that is named; ``x`` comes first."""
    expect(got.requires_grad, "detached", expected="a result with a history", got="none")
    upstream, wanted = trial.randn(*expected.shape), list(named.values())
    found, right = (torch.autograd.grad((y * upstream).sum(), wanted, allow_unused=True) for y in (got, expected))
    reached = [one is not None for one, other in zip(found, right, strict=True) if other is not None]
    # Where all the weights are reached, what was cut is the path from there on to x.
    key = "x detached" if all(reached[1:]) else "detached"
    for name, one, other in zip(named, found, right, strict=True):
        if other is not None:
            expect(one is not None, key, expected=f"a gradient for {name}", got="none")
            plain = f"the gradient of {name} in the plain network"
            # Loose enough for float32 on the way: which dtype comes back is a claim of its own.
            expect(same(one, other, 1e-4, 1e-5), expected=plain, got="another gradient")


def expect_shape(got: Tensor, expected: torch.Size) -> None:
    """It has the shape; a dimension too many beside a 0-dim tensor is what a helper of shape (1,) makes."""
    key = "one element" if got.shape == (1,) and not expected else ""
    expect(got.shape == expected, key, expected=f"shape {tuple(expected)}", got=f"shape {tuple(got.shape)}")


def edited_gradient(got: Tensor, x: Tensor, upstream: Tensor, edited: str, other: str = "") -> Tensor | None:
    """d (got · upstream) / d x; ``edited`` is missed where something saved was edited in place, else ``other``."""
    try:
        return gradient(got, x, upstream)
    except RuntimeError as error:
        key = edited if "modified by an inplace" in str(error) else other
        raise Missed(key, expected="a gradient", got=f"RuntimeError: {str(error)[:90]}") from None


def flops(function: Callable[[], Tensor]) -> int:
    """FLOPs of a forward and a backward pass."""
    with FlopCounterMode(display=False) as counter:
        result = function()
        if result.requires_grad:
            result.sum().backward()
    return counter.get_total_flops()


def flops_alone(branch: Branch, x: Tensor) -> int:
    """FLOPs of a branch's forward and backward pass; no gradient is left behind."""
    x = x.detach().requires_grad_(x.requires_grad)
    count = flops(lambda: branch.layers(x))
    branch.zero_grad()
    return count

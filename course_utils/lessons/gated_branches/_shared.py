"""What several exercises of lesson 06, gated_branches, look at."""

from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Trial


class Branch(nn.Sequential):
    """A branch that notes of each call how many rows it was given."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.rows: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        return super().forward(x)


def branches(trial: Trial, images: bool = False) -> tuple[Branch, Branch]:
    """Two branches of one architecture with other weights, from three columns, or channels, to five."""

    def layers() -> tuple[nn.Module, ...]:
        if images:
            return nn.Conv2d(3, 4, 2), nn.Tanh(), nn.Conv2d(4, 5, 1)
        return nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 5)

    a, b = (trial.fill(Branch(*layers()).double()) for _ in range(2))
    return a, b


def gradients(result: Tensor, upstream: Tensor, wanted: dict[str, Tensor]) -> dict[str, Any]:
    """The gradients that a result passes on, by name; ``"None"`` where no path leads there."""
    if not result.requires_grad:
        return dict.fromkeys(wanted, "None")
    found = torch.autograd.grad((result * upstream).sum(), list(wanted.values()), allow_unused=True)
    return {name: "None" if one is None else one for name, one in zip(wanted, found, strict=True)}


def slopes(trial: Trial, x: Tensor, what: str) -> Tensor | str:
    """The gradient that an answer which is given ``x`` alone passes on to it, for a random one that it is handed."""
    called = f"{trial.name}({what})"
    got = trial.tensor(trial.call(x.requires_grad_(), show=called))
    upstream = trial.randn(*x.shape)
    return trial.run(lambda: gradients(got, upstream, {"x": x})["x"], called=f"{called}, and backward")


def weights(**named: nn.Module) -> dict[str, Tensor]:
    """All parameters of the branches, by name."""
    return {f"{name}.{key}": one for name, branch in named.items() for key, one in branch.named_parameters()}

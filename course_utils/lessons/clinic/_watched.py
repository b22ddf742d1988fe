"""A data set whose network is watched while a script trains it, and what was seen."""

import copy
import gc
from contextlib import AbstractContextManager
from typing import NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from course_utils.base.torch_private import is_functorch_wrapped
from course_utils.checks.compare import Missed, Trial
from course_utils.clinic import CLASSES, FEATURES, WIDTH, ClinicDataset, ClinicResult
from course_utils.memory import MemoryTracker

# The number of an image's batch is written into its first pixel, so small that it teaches the network nothing.
_STEP = 2.0**-10


class Note(NamedTuple):
    """One forward pass of a part of the network."""

    part: str  # "encoder", "open" or "closed"
    rows: int
    number: int  # 1, 2, 3 for the training batches, -1, -2, -3 for the test batches
    modes: list[bool]  # the training flag of each module inside the part
    recorded: bool  # whether the result has a history
    held: int  # bytes alive before the pass


class Watched(nn.Sequential):
    """A part of the network that notes each forward pass; its layers are reached as those of any ``Sequential``."""

    def __init__(self, part: str, body: nn.Sequential, dataset: "WatchedDataset") -> None:
        super().__init__(*body)
        self.part, self._watching = part, lambda: dataset  # which a copy of this module does not copy

    def forward(self, x: Tensor) -> Tensor:
        rows, dataset = x.flatten(1), self._watching()
        held = dataset.tracker.current if dataset.tracker else 0
        out = super().forward(rows)
        if self.part == "encoder":  # the mark goes on to the branches
            out = torch.cat([rows[:, :1], out[:, 1:]], dim=1)
        if not is_functorch_wrapped(x):
            number = round(rows.detach()[0, 0].item() / _STEP)
            modes = [part.training for part in self.modules()]
            dataset.notes.append(Note(self.part, len(x), number, modes, out.requires_grad, held))
        return out


class WatchedDataset(ClinicDataset):
    """Random images, in ``steps`` training batches of ``rows`` rows, micro-batches of 8 and four test batches.

    The parts of its network are watched. ``with_modes`` the encoder has a batch norm, and the branches have dropout.
    """

    def __init__(
        self, trial: Trial, steps: int = 3, rows: int = 20, *, with_modes: bool = False, use_a: bool = True
    ) -> None:
        numbers = [n for n in range(1, steps + 1) for _ in range(rows)] + [-n for n in (1, 2, 3, 4) for _ in range(6)]
        images = trial.randn(len(numbers), 1, 8, 8, dtype=torch.float32).abs().clamp(max=2) / 2
        images[:, 0, 0, 0] = torch.tensor(numbers) * _STEP
        labels = torch.tensor([trial.integer(0, CLASSES - 1) for _ in numbers])
        (x, test_x), (y, test_y) = (part.split([steps * rows, 24]) for part in (images, labels))
        super().__init__(x, y, test_x, test_y, use_a=use_a, batch_rows=rows, micro_rows=8, test_rows=6)
        self.notes: list[Note] = []
        self.tracker: MemoryTracker | None = None
        self.made: dict[str, Watched] = {}  # the parts of the newest run
        norm, drop = ([nn.BatchNorm1d(FEATURES)], [nn.Dropout(0.2)]) if with_modes else ([], [])
        bodies = {"encoder": nn.Sequential(nn.Linear(64, FEATURES), *norm)}
        bodies |= {part: nn.Sequential(nn.Linear(FEATURES, WIDTH), *drop) for part in ("open", "closed")}
        for parameter in (p for body in bodies.values() for p in body.parameters() if p.dim() == 2):
            values = trial.randn(*parameter.shape, dtype=torch.float32)
            parameter.detach().copy_(values / parameter.shape[1] ** 0.5)
        self.fresh = {part: Watched(part, body, self) for part, body in bodies.items()}

    def _part(self, name: str) -> Watched:
        self.made[name] = copy.deepcopy(self.fresh[name])
        return self.made[name]

    def training(self, part: str = "open") -> list[Note]:
        return [note for note in self.notes if note.part == part and note.number > 0]

    def testing(self, part: str = "open") -> list[Note]:
        return [note for note in self.notes if note.part == part and note.number < 0]

    def encoder(self) -> nn.Module:
        return self._part("encoder")

    def branches(self) -> tuple[nn.Module, nn.Module]:
        opened, closed = self._part("open"), self._part("closed")
        return (opened, closed) if self.use_a else (closed, opened)


def run(
    trial: Trial,
    dataset: ClinicDataset,
    epochs: int,
    seed: int | None = None,
    within: AbstractContextManager | None = None,
) -> ClinicResult:
    """Runs the script. Where its network is watched, one that ignores the seed begins alike each time, too."""
    seed = trial.integer(1, 10**6) if seed is None else seed
    if isinstance(dataset, WatchedDataset):
        torch.manual_seed(seed)
    called = f"run_clinic(dataset, epochs={epochs}, seed={seed})" + ", dataset.use_a is False" * (not dataset.use_a)
    watch = {"dataset's images": dataset._images}
    # A script that calls the collector at each step would hide its circles.
    with mock.patch.object(gc, "collect", lambda generation=2: 0):
        made = trial.run(lambda: trial.answer(dataset, epochs, seed), called=called, watch=watch, within=within)
    if made is None:
        raise Missed("no return value", expected="a ClinicResult", got="None")
    parts = ("parameters", "encoder", "branch_a", "branch_b", "weight")
    if not (
        hasattr(made, "losses") and hasattr(made, "accuracies") and all(hasattr(made.model, part) for part in parts)
    ):
        raise Missed(expected="losses, accuracies, and a model with encoder, branch_a, branch_b and weight", got=made)
    return made

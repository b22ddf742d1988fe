"""A data set whose network is watched while a script trains it, and what was seen."""

import contextlib
import copy
import gc
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from course_utils.base.text import describe
from course_utils.base.torch_private import is_functorch_wrapped
from course_utils.checks.claims import Missed, Trial, training_flags
from course_utils.clinic import CLASSES, FEATURES, WIDTH, ClinicDataset, ClinicResult, collector_off
from course_utils.memory import MemoryTracker

_COLLECT = gc.collect  # a script that calls it at each step sweeps up its cycles and hides them: there it does nothing


class _Note(NamedTuple):
    """One forward pass of a part of the network."""

    part: str  # "encoder", "open" or "closed"
    rows: int
    number: int  # 1, 2, 3 for the training batches, -1, -2, -3 for the test batches
    modes: list[bool]  # the training flag of each module inside the part
    norm_trains: bool  # whether a batch norm or dropout inside was in training mode
    recorded: bool  # whether the result has a history
    held_bytes: int  # alive before the pass
    closed_modes: list[bool]  # the training flags inside the closed branch
    backs: int  # how often backward had come through the open branch before the pass


class _Passes(list[_Note]):
    """The notes of a run. Copies of a part write on the same list."""

    tracker: MemoryTracker | None = None
    cycles_bytes = 0
    backs = 0
    closed: nn.Module | None = None  # the closed branch that was handed out: nobody needs to call it

    def __deepcopy__(self, memo: dict) -> "_Passes":
        return self

    def came_back(self, gradient: Tensor) -> None:
        self.backs += 1

    def training(self, part: str = "open") -> list[_Note]:
        return [note for note in self if note.part == part and note.number > 0]

    def testing(self, part: str = "open") -> list[_Note]:
        return [note for note in self if note.part == part and note.number < 0]

    def growth(self) -> float:
        """Bytes that are held more from one training step to the next, over the first epoch."""
        first: dict[int, int] = {}
        for note in self.training():
            first.setdefault(note.number, note.held_bytes)
        held = [first[number] for number in sorted(first)][1:]  # the first step makes gradients
        return (held[-1] - held[0]) / (len(held) - 1) if len(held) > 1 else 0.0


# The number of an image's batch is written into its first pixel, so small that it teaches the network nothing.
_STEP = 2.0**-10


class Watched(nn.Sequential):
    """A part of the network that notes each forward pass; its layers are reached as those of any ``Sequential``."""

    def __init__(self, part: str, body: nn.Sequential, passes: _Passes) -> None:
        super().__init__(*body)
        self.part, self._passes = part, passes

    def forward(self, x: Tensor) -> Tensor:
        passes, rows = self._passes, x.flatten(1)
        held = passes.tracker.current if passes.tracker is not None else 0
        out = super().forward(rows)
        if self.part == "encoder":  # the mark goes on to the branches
            out = torch.cat([rows[:, :1], out[:, 1:]], dim=1)
        if not is_functorch_wrapped(x):
            number = round(rows.detach()[0, 0].item() / _STEP)
            closed = training_flags(passes.closed) if passes.closed is not None else []
            norm_trains = any(
                part.training for part in self.modules() if isinstance(part, (nn.BatchNorm1d, nn.Dropout))
            )
            modes, recorded = training_flags(self), out.requires_grad
            note = _Note(self.part, len(rows), number, modes, norm_trains, recorded, held, closed, passes.backs)
            passes.append(note)
            if self.part == "open" and recorded:
                out.register_hook(passes.came_back)
        return out


class WatchedDataset(ClinicDataset):
    """Random images whose network is watched.

    Args:
        trial: draws images, labels and parts.
        batches: how many training batches of ``rows`` rows there are.
        tests: how many test batches.
        rows, test_rows: rows of a training batch, of a test batch; a micro-batch has 8.
        with_modes: whether the encoder has a batch norm and the branches have dropout.
        use_a: which branch is open.
    """

    def __init__(
        self,
        trial: Trial,
        *,
        batches: int = 3,
        tests: int = 2,
        rows: int = 20,
        test_rows: int = 6,
        with_modes: bool = False,
        use_a: bool = True,
    ) -> None:
        first_test = batches * rows
        numbers = [n for n in range(1, batches + 1) for _ in range(rows)]
        numbers += [-n for n in range(1, tests + 1) for _ in range(test_rows)]
        del numbers[-2:]  # the last test batch has fewer rows: a mean of batches is no mean of rows
        images = trial.randn(len(numbers), 1, 8, 8, dtype=torch.float32).abs().clamp(max=2) / 2
        images[:, 0, 0, 0] = torch.tensor(numbers) * _STEP
        labels = torch.tensor([trial.integer(0, CLASSES - 1) for _ in numbers])
        parts = images[:first_test], labels[:first_test], images[first_test:], labels[first_test:]
        super().__init__(*parts, use_a=use_a, batch_rows=rows, micro_rows=8, test_rows=test_rows)
        self.images, self.steps, self.tests, self.passes = images, batches, tests, _Passes()
        norm, drop = ([nn.BatchNorm1d(FEATURES)], [nn.Dropout(0.2)]) if with_modes else ([], [])
        bodies = {
            "encoder": nn.Sequential(nn.Linear(64, FEATURES), *norm),
            "open": nn.Sequential(nn.Linear(FEATURES, WIDTH), *drop),
            "closed": nn.Sequential(nn.Linear(FEATURES, WIDTH), *drop),
        }
        self.parts = {part: Watched(part, _drawn(trial, body), self.passes) for part, body in bodies.items()}

    def deeper(self, trial: Trial) -> "WatchedDataset":
        """The same data and parts, with a closed branch that has four layers more."""
        other = copy.copy(self)
        other.passes = _Passes()
        more = _drawn(trial, nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4))))
        bodies = self.parts | {"closed": nn.Sequential(*self.parts["closed"], *more)}
        other.parts = {part: Watched(part, body, other.passes) for part, body in bodies.items()}
        return other

    def encoder(self) -> nn.Module:
        return copy.deepcopy(self.parts["encoder"])

    def branches(self) -> tuple[nn.Module, nn.Module]:
        opened, closed = copy.deepcopy(self.parts["open"]), copy.deepcopy(self.parts["closed"])
        self.passes.closed = closed
        return (opened, closed) if self.use_a else (closed, opened)

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Counts bytes, with the garbage collector off: what is given back is what the script lets go.

        Where bytes grow from step to step, the notes say how many of them the garbage collector would give back.
        """
        passes = self.passes
        try:
            with collector_off(), older_objects_aside(), MemoryTracker() as passes.tracker:
                yield
                if passes.growth() > TOLERANCE_BYTES:
                    held = passes.tracker.current
                    _COLLECT()
                    passes.cycles_bytes = held - passes.tracker.current
        finally:
            passes.tracker = None


def _drawn(trial: Trial, body: nn.Sequential) -> nn.Sequential:
    for parameter in body.parameters():
        if parameter.dim() == 2:
            values = trial.randn(*parameter.shape, dtype=torch.float32)
            parameter.detach().copy_(values / parameter.shape[1] ** 0.5)
    return body


TOLERANCE_BYTES = 32  # a step: a few numbers a step in small tensors are a log, not a leak


@contextlib.contextmanager
def older_objects_aside() -> Iterator[None]:
    """Inside, a full garbage collection looks at new objects alone: in a notebook there are many old ones."""
    frozen = gc.get_freeze_count()
    gc.freeze()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()


class CollectingDataset(ClinicDataset):
    """Digits whose branches sweep up garbage at each pass: cycles are the fourth property's affair."""

    def branches(self) -> tuple[nn.Module, nn.Module]:
        first, second = super().branches()
        return _Sweeping(*first), _Sweeping(*second)


class _Sweeping(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        _COLLECT()
        return super().forward(x)


def run(trial: Trial, dataset: ClinicDataset, epochs: int, seed: int | None = None, within: Any = None) -> ClinicResult:
    """Runs the script on the data set; what it gives back has all that the claims look at."""
    seed = trial.integer(1, 10**6) if seed is None else seed
    with mock.patch.object(gc, "collect", lambda generation=2: 0):
        result = trial.run(
            lambda: trial.answer(dataset, epochs, seed),
            called=f"run_clinic(dataset, epochs={epochs}, seed={seed})"
            + ", dataset.use_a is False" * (not dataset.use_a),
            watch={"dataset's images": dataset._images},
            within=within,
        )
    if result is None:
        raise Missed("no return value", expected="a ClinicResult", got="None")
    if not all(hasattr(result, name) for name in ("model", "losses", "accuracies")):
        raise Missed(expected="a ClinicResult: model, losses, accuracies", got=result)
    parts = ("encoder", "branch_a", "branch_b", "weight")
    if not isinstance(result.model, nn.Module) or not all(hasattr(result.model, part) for part in parts):
        raise Missed(expected="a model with encoder, branch_a, branch_b and weight", got=result.model)
    return result


def _inside(module: nn.Module, part: str) -> Watched:
    """The watched part in a module, which may be wrapped in others."""
    for found in module.modules():
        if isinstance(found, Watched) and found.part == part:
            return found
    raise Missed("another network", expected=f"the dataset's own part in {describe(module)}", got="another module")


def open_branch(result: ClinicResult, dataset: ClinicDataset) -> Watched:
    return _inside(result.model.branch_a if dataset.use_a else result.model.branch_b, "open")


def encoder(result: ClinicResult) -> Watched:
    return _inside(result.model.encoder, "encoder")

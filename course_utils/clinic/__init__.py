"""The out-of-memory clinic of the last lesson: what a training script is given (``ClinicDataset``, ``TwoBranches``) and
gives back (``ClinicResult``), and the bytes that it holds from batch to batch (``bytes_over_batches``). The scripts
stand in ``scripts``.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base import explain
from course_utils.data import handwritten_digits
from course_utils.memory import MemoryTracker
from course_utils.memory.loops import collector_off as collector_off

FEATURES, WIDTH, CLASSES = 32, 64, 10


class Batches:
    """Images and labels in batches, in a fixed order; each loop over it begins anew.

    Args:
        images: the rows, shape (count, 1, 8, 8).
        labels: one class a row, int64, shape (count,).
        rows: how many rows a batch has; the last one may have fewer.

    Attributes:
        rows: how many rows there are in all batches together.
        loops: how many loops over it have begun.
    """

    def __init__(self, images: Tensor, labels: Tensor, rows: int) -> None:
        self._images, self._labels, self._batch_rows = images, labels, rows
        self.rows, self.loops = len(images), 0
        self._asked: Callable[[], None] = lambda: None  # called each time that a batch is asked for

    def __len__(self) -> int:
        return -(-self.rows // self._batch_rows)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields (images, labels). They are views: a batch takes no bytes of its own."""
        self.loops += 1
        for batch in zip(self._images.split(self._batch_rows), self._labels.split(self._batch_rows), strict=True):
            self._asked()
            yield batch


class ClinicDataset:
    """Handwritten digits in batches, the parts of a network for them, and the setting of the experiment.

    Args:
        train_images: float32, shape (count, 1, 8, 8).
        train_labels: int64, shape (count,), values 0 to 9.
        test_images: as ``train_images``.
        test_labels: as ``train_labels``.
        use_a: which of the network's two branches is open: the first (True) or the second.
        batch_rows: rows of a training batch.
        micro_rows: rows that may go through the network at once while training.
        test_rows: rows of a test batch.

    Attributes:
        train: the training batches, an iterable of (images, labels).
        test: the test batches, likewise.
        use_a, micro_rows: as given.
        device: where images, labels and the network's parts are.
        learning_rate: of plain gradient descent.
        bar: the accuracy on the test images that a healthy script reaches in ``epochs`` epochs.
        epochs: see ``bar``.
        budget_bytes: the most that a healthy script keeps alive at any moment, above what was there before, however
            many rows a training batch has.
    """

    learning_rate = 0.1
    bar = 0.85
    epochs = 10
    budget_bytes = 160 * 1024

    def __init__(
        self,
        train_images: Tensor,
        train_labels: Tensor,
        test_images: Tensor,
        test_labels: Tensor,
        *,
        use_a: bool = True,
        batch_rows: int = 60,
        micro_rows: int = 16,
        test_rows: int = 25,
    ) -> None:
        if micro_rows < 1 or batch_rows < 1 or test_rows < 1:
            raise ValueError(
                explain(
                    f"ClinicDataset(batch_rows={batch_rows}, micro_rows={micro_rows}, test_rows={test_rows}).",
                    "at least one row in each.",
                )
            )
        self.train = Batches(train_images, train_labels, batch_rows)
        self.test = Batches(test_images, test_labels, test_rows)
        self.use_a, self.micro_rows = use_a, micro_rows
        self.device = train_images.device
        self._images = train_images
        self._encoder = _pretrained(train_images)

    @classmethod
    def digits(
        cls,
        seed: int = 0,
        *,
        use_a: bool = True,
        device: torch.device | str = "cpu",
        train_rows: int = 1347,
        test_rows: int = 450,
    ) -> "ClinicDataset":
        """The 1797 digits of ``handwritten_digits``, shuffled and split anew: 1347 to train on, 450 to test on.

        Args:
            seed: decides the shuffle, with a generator of its own.
            use_a: which branch is open.
            device: where images, labels and the network's parts are.
            train_rows: how many of the first part are used.
            test_rows: how many of the second part are used.
        """
        images, labels, more_images, more_labels = handwritten_digits()
        images, labels = torch.cat([images, more_images]).to(device), torch.cat([labels, more_labels]).to(device)
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed)).to(device)
        test, train = order[: len(more_images)], order[len(more_images) :]
        test, train = test[:test_rows], train[:train_rows]
        return cls(images[train], labels[train], images[test], labels[test], use_a=use_a)

    def encoder(self) -> nn.Module:
        """A fresh copy of the pretrained encoder: from images (rows, 1, 8, 8) to features (rows, 32).

        It is the encoder of the best linear autoencoder, which has a closed form: the principal components of the
        training images, brought to variance 1 by a batch norm that knows the variances. As any new module it is in
        training mode, and its parameters require grad.
        """
        return copy.deepcopy(self._encoder)

    def branches(self) -> tuple[nn.Module, nn.Module]:
        """Two new branches, from features (rows, 32) to (rows, 64), drawn from torch's random numbers."""
        first, second = (nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.Dropout(0.1)) for _ in range(2))
        return first.to(self._images.device), second.to(self._images.device)


def _pretrained(images: Tensor) -> nn.Module:
    pixels = images.flatten(1).double()
    mean = pixels.mean(0)
    variances, components = torch.linalg.eigh((pixels - mean).T @ (pixels - mean) / len(pixels))
    variances, components = variances[-FEATURES:].flip(0), components[:, -FEATURES:].flip(1).T
    # An eigenvector and its negative are equally good; which one comes back depends on the machine.
    components = components * components.gather(1, components.abs().argmax(1, keepdim=True)).sign()
    # Drawn on the device meta: that takes no random numbers. (skip_init would load sympy, which takes seconds.)
    linear, norm = nn.Linear(64, FEATURES, device="meta"), nn.BatchNorm1d(FEATURES)
    weight, bias = components.float().contiguous(), -(components @ mean).float()
    linear.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    norm.load_state_dict(norm.state_dict() | {"running_var": variances})
    return nn.Sequential(nn.Flatten(), linear, norm).to(images.device)


class TwoBranches(nn.Module):
    """The network of the clinic: an encoder, two branches of which one is open, and a head without bias.

    ``model(images)`` gives (rows, 10): ``cat(halves, dim=1) @ weight.T``. A script writes ``halves`` in a class of its
    own and hands over the head's ``weight``.

    Args:
        dataset: gives the encoder, the branches and the gate.
        weight: the head's weight, shape (10, 128).

    Attributes:
        encoder, branch_a, branch_b: the parts.
        weight: as given.
        gates: [(branch_a, True where it is open), (branch_b, likewise)].
    """

    def __init__(self, dataset: ClinicDataset, weight: Tensor) -> None:
        super().__init__()
        self.encoder = dataset.encoder()
        self.branch_a, self.branch_b = dataset.branches()
        self.gates = [(self.branch_a, dataset.use_a), (self.branch_b, not dataset.use_a)]
        self.weight = weight

    def halves(self, features: Tensor) -> Sequence[Tensor]:
        """What the two branches give, (rows, 64) each: the script's own part."""
        raise NotImplementedError("a class of the script's own writes halves(features)")

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat(list(self.halves(self.encoder(images))), dim=1) @ self.weight.T


@dataclass(eq=False)
class ClinicResult:
    """What a training script gives back.

    Attributes:
        model: the trained network, with ``encoder``, ``branch_a``, ``branch_b`` and ``weight``.
        losses: one number for each training batch: its mean loss, before its step.
        accuracies: one float for each epoch: the share of test images that are named rightly, after the epoch.
    """

    model: Any
    losses: Any
    accuracies: Any


def bytes_over_batches(
    script: Callable[..., Any],
    dataset: ClinicDataset,
    epochs: int = 1,
    seed: int = 0,
    part: str = "both",
    *,
    collect: bool = False,
) -> list[int]:
    """Bytes that a script holds each time it asks for a batch, above those before it began.

    Args:
        script: called as ``script(dataset, epochs, seed)``.
        dataset: what it is given.
        epochs: likewise.
        seed: likewise.
        part: "train" or "test" to note the requests for these batches alone; "both" for all.
        collect: whether Python's garbage collector stays on. Without it the numbers are the same in every run, and
            only what the script itself lets go is given back.

    Returns:
        One number for each batch, in order; [0] where the script asks for none.

    Raises:
        ValueError: ``part`` is none of these.
    """
    if part not in ("both", "train", "test"):
        raise ValueError(explain(f"bytes_over_batches(part={part!r}).", "one of: both, train, test."))
    held: list[int] = []
    watched = copy.copy(dataset)
    with contextlib.nullcontext() if collect else collector_off(), MemoryTracker(dataset._images) as mem:
        for name in ("train", "test"):
            if part in (name, "both"):
                batches = copy.copy(getattr(dataset, name))
                batches._asked = lambda: held.append(mem.current)
                setattr(watched, name, batches)
        script(watched, epochs, seed)
    return held or [0]

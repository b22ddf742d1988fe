"""What the exercises of lesson 09 draw and look at: a batch and its model, rows, bytes."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from course_utils.checks.compare import AtMost, ModeRoll, Trial, squared_error
from course_utils.memory import MemoryTracker

ROWS = 512  # of a batch where bytes are counted: then its activations are many times the parameters
_FEW = ROWS * 8 * 12  # bytes that count as none: a batch's rows or losses, and the gradients of some batches


def network(trial: Trial, *layers: nn.Module) -> nn.Module:
    """A model from three columns to two, of these layers where any are given."""
    layers = layers or (nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    return trial.fill(nn.Sequential(*layers).double())


class Batch:
    """A model, a batch, and the size of its micro-batches."""

    loss_fn = staticmethod(squared_error)

    def __init__(self, trial: Trial, rows: int, micro_batch: int, *layers: nn.Module) -> None:
        self.model, self.micro_batch = network(trial, *layers), micro_batch
        self.x, self.y = trial.randn(rows, 3), 3 * trial.randn(rows, 2)
        self.words = f"{rows} rows, micro_batch={micro_batch}"

    def old_gradients(self, trial: Trial) -> None:
        """Draws a ``.grad`` for every parameter."""
        for parameter in self.model.parameters():
            parameter.grad = 3 * trial.randn(*parameter.shape)

    def watched(self) -> dict[str, Any]:
        """What must stay as it is, by name: the batch, and the modes of the layers that have no parameters."""
        layers = {f"model.{i}": layer for i, layer in enumerate(self.model) if not list(layer.parameters())}
        return {"x": self.x, "y": self.y} | layers

    def gradients(self) -> dict[str, Tensor | None]:
        """Copies of what is in ``.grad``, by the parameters' names."""
        return {name: None if p.grad is None else p.grad.clone() for name, p in self.model.named_parameters()}


def loss_seen(trial: Trial, got: Any) -> Iterator[tuple[str, Any]]:
    """What came back for a loss: its type and its value."""
    yield "the type", type(got).__name__
    yield "the loss", float(trial.tensor(got).detach() if isinstance(got, Tensor) else got)


def mixed_modes() -> tuple[nn.Module, ...]:
    """Layers in two modes, each with another value in the other mode."""
    return nn.Linear(3, 5), ModeRoll(), nn.Tanh(), ModeRoll().eval(), nn.Linear(5, 2)


def count_rows(model: nn.Module, alive: Callable[[], int] = lambda: 0) -> list[tuple[int, int]]:
    """From now on each pass of the model adds its rows, and the bytes that are alive as it begins."""
    passes: list[tuple[int, int]] = []
    # A plain function: an answer may copy the model, and a bound method would be copied with all that it knows.
    model.register_forward_pre_hook(lambda _, given: passes.append((len(given[0]), alive())))
    return passes


def one_batch_alive(
    trial: Trial, draw: Callable[[int], tuple], call: Callable[[MemoryTracker, nn.Module, tuple], object]
) -> Iterator[tuple[str, AtMost]]:
    """What a look sees of memory: the rows of one pass, what is alive as the next begins, and how the peak grows.

    The rows and the output of the last batch may wait for the next one, whose names they have until it comes.

    Args:
        trial: draws the models.
        draw: the data of so many batches.
        call: calls the answer.
    """

    def run(count: int, *layers: nn.Module) -> tuple[int, list[tuple[int, int]]]:
        model, data = network(trial, *layers), draw(count)
        tracker = MemoryTracker(model, *data)
        passes = count_rows(model, lambda: tracker.current)
        call(tracker, model, data)
        return tracker.peak, passes

    _, passes = run(2, nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    yield "rows at a time", AtMost(max((rows for rows, _ in passes), default=0))
    most = max((alive for _, alive in passes), default=0)
    yield "bytes of activations, as the next micro-batch comes", _but_few(most)
    few, many = (run(count, nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 40))[0] for count in (2, 4))
    yield "more bytes of activations for each micro-batch", _but_few((many - few) // 2)


def _but_few(count: int) -> AtMost:
    return AtMost(count if count > _FEW else 0)

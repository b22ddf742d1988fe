"""One batch's activations alive at a time: the claim that ``accumulate`` and ``histogram_gradient`` share."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Trial, expect
from course_utils.lessons.gradient_accumulation._shared import Forward, most_rows, noted_forwards
from course_utils.memory import MemoryTracker

ROWS = 512  # of a batch: then its activations are many times the parameters
_COUNTS = (3, 8)  # batches


def expect_one_batch_alive(
    trial: Trial,
    draw: Callable[[nn.Sequential, int], tuple],
    call: Callable[..., object],
    first: Callable[..., Tensor],
    *,
    joined: str,
    recorded: str,
    gradients: int = 1,
) -> None:
    """At the start of each pass nothing of another batch is alive, and the peak does not grow with their number.

    Gradients may be kept, and a number or two for each row; the rows and the output of the last batch may wait for the
    next ones, which hold their names until they come.

    Args:
        trial: draws the models.
        draw: the data, for a model and how many batches.
        call: calls the answer, given the tracker, the model and the data.
        first: records the first batch alone, given the model and the data.
        joined: the misconception where more than one batch's rows go through the model at once, without a graph.
        recorded: the one where they are recorded.
        gradients: how many of them for each parameter may be kept of a batch.
    """

    def run(model: nn.Sequential, data: tuple) -> tuple[int, list[Forward], bool]:
        """The peak, the passes, and whether what came out has a history, which keeps the graphs."""
        tracker = MemoryTracker(model, *data)
        with noted_forwards(model, tracker) as forwards:
            result = call(tracker, model, *data)
        most = most_rows(forwards)
        key = recorded if most_rows(forward for forward in forwards if forward.recorded) > ROWS else joined
        expect(most <= ROWS, key, expected=f"at most {ROWS} samples at a time", got=f"{most} at once")
        found = [*(result if isinstance(result, list) else []), *(p.grad for p in model.parameters())]
        return tracker.peak, forwards, any(isinstance(g, Tensor) and g.requires_grad for g in found)

    def expect_same_peak(inputs: int, outputs: int) -> None:
        peaks = []
        for count in _COUNTS:
            model = trial.fill(nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, outputs)).double())
            peaks.append(run(model, draw(model, count))[0])
        _expect_same_peak(peaks, model, gradients, "kept")

    deep = [layer for _ in range(6) for layer in (nn.Linear(12, 12), nn.Tanh())]
    peaks = []
    for count in _COUNTS:
        model = trial.fill(nn.Sequential(nn.Linear(3, 12), nn.Tanh(), *deep, nn.Linear(12, 1)).double())
        data = draw(model, count)
        with MemoryTracker(model, *data) as tracker:
            kept = first(model, *data)
            graph_bytes = tracker.current
            del kept
        peak, forwards, has_history = run(model, data)
        expected = f"gradients aside, less than half of one batch's {format_bytes(graph_bytes)} before the next"
        for number, forward in enumerate(forwards):
            kept = number * gradients * _bytes(model) if gradients > 1 else 0
            key = "recorded" if has_history else "retained" if forward.after_backward else "all graphs"
            expect(
                forward.alive <= graph_bytes / 2 + kept,
                key,
                expected=expected,
                got=f"{format_bytes(forward.alive)} alive",
            )
        peaks.append(peak)
    _expect_same_peak(peaks, model, gradients, "all graphs")
    expect_same_peak(300, 1)  # rows that are wider than all that is made of them
    expect_same_peak(3, 60)  # an output that is wider than all before it


def _bytes(model: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def _expect_same_peak(peaks: Sequence[int], model: nn.Module, gradients: int, key: str) -> None:
    few, many = _COUNTS
    growth = (peaks[1] - peaks[0]) / (many - few)
    got = f"{format_bytes(peaks[0])}, then {format_bytes(peaks[1])}: {format_bytes(round(growth))} more a batch"
    same = growth <= (gradients + 3) * _bytes(model) + 2 * ROWS * 8 + 256  # 3: what is made of them, their sums
    expect(same, key, expected=f"the same peak for {few} and for {many} batches, gradients aside", got=got)

"""One batch's activations alive at a time: the claim that ``accumulate`` and ``histogram_gradient`` share."""

from collections.abc import Callable

from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Trial, expect
from course_utils.lessons.gradient_accumulation._shared import most_rows, noted_forwards
from course_utils.memory import MemoryTracker

ROWS = 256  # of a batch: then its activations are many times the parameters


def expect_one_batch_alive(
    trial: Trial,
    draw: Callable[[nn.Module, int], tuple],
    call: Callable[..., object],
    first: Callable[..., Tensor],
    *,
    joined: str,
    recorded: str,
) -> None:
    """At the start of each pass nothing of another batch is alive, and the peak does not grow with their number.

    Args:
        trial: draws the model.
        draw: the data, for a model and how many batches.
        call: calls the answer, given the tracker, the model and the data.
        first: records the first batch alone, given the model and the data.
        joined: the misconception where more than one batch's rows go through the model at once, without a graph.
        recorded: the one where they are recorded.
    """
    peaks = []
    for count in (3, 8):
        deep = [layer for _ in range(3) for layer in (nn.Linear(12, 12), nn.Tanh())]
        model = trial.fill(nn.Sequential(nn.Linear(3, 12), nn.Tanh(), *deep, nn.Linear(12, 1)).double())
        data = draw(model, count)
        with MemoryTracker(model, *data) as tracker:
            kept = first(model, *data)
            graph_bytes = tracker.current
            del kept
        tracker = MemoryTracker(model, *data)
        with noted_forwards(model, tracker) as forwards:
            call(tracker, model, *data)
        most = most_rows(forwards)
        key = recorded if most_rows(forward for forward in forwards if forward.recorded) > ROWS else joined
        expect(most <= ROWS, key, expected=f"at most {ROWS} samples at a time", got=f"{most} at once")
        expected = f"at the start of a forward pass, less than half of one batch's {format_bytes(graph_bytes)}"
        for forward in forwards:
            key = "retained" if forward.after_backward else "all graphs"
            expect(forward.alive <= graph_bytes / 2, key, expected=expected, got=f"{format_bytes(forward.alive)} alive")
        peaks.append(tracker.peak)
    growth = (peaks[1] - peaks[0]) / 5
    got = f"{format_bytes(peaks[0])}, then {format_bytes(peaks[1])}: {format_bytes(round(growth))} more a batch"
    # The outputs themselves, one number a row, may be kept: they are no more than the targets.
    few = growth <= 2 * ROWS * 8 + 256
    expect(few, "all graphs", expected="the same peak for 3 and for 8 batches", got=got)

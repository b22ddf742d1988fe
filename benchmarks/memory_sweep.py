"""The tracker against the CPU's allocator, on every operation that PyTorch's own test suite knows.

Each operation runs twice on the same inputs, once under each engine of ``MemoryTracker``: ``dispatch``, which is
judged, and ``allocator``, which is the truth. Compared are bytes held after forward (with the result alive) and after
backward, and the peaks. Run it with ``make sweep``; prints one table and the operations that differ.
"""

import argparse
import collections
import contextlib
import io
import itertools
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from course_utils.memory import MemoryTracker


@dataclass
class Comparison:
    """Bytes of one operation on one sample; ``None`` for backward where there is none."""

    op: str
    held: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # phase: tracker, by name unseen, allocator
    peak: dict[str, tuple[int, int]] = field(default_factory=dict)  # phase: tracker, allocator

    def exact(self, phase: str) -> bool:
        tracker, unseen, allocator = self.held[phase]
        return tracker + unseen == allocator


def operations() -> list[Any]:
    """PyTorch's list of operations with sample inputs (``OpInfo``)."""
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def compare(op: Any, sample: Any) -> Comparison:
    """Runs one operation on one sample under both engines."""
    name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
    result = Comparison(name)
    run(op, sample, MemoryTracker(device="cpu"))  # fills the caches that some kernels keep
    tracker = MemoryTracker(sample.input, sample.args, list(sample.kwargs.values()), device="cpu", engine="dispatch") \
        if False else MemoryTracker(device="cpu", engine="dispatch")
    unseen = run(op, sample, tracker)
    allocator = MemoryTracker(device="cpu", engine="allocator")
    run(op, sample, allocator)
    for ours, truth, beside in zip(tracker.phases, allocator.phases, unseen, strict=True):
        result.held[ours.name] = (ours.end, beside, truth.end)
        result.peak[ours.name] = (ours.peak, truth.peak)
    return result


def run(op: Any, sample: Any, tracker: MemoryTracker) -> list[int]:
    """One forward and, where possible, one backward; returns the bytes that graphs hold unseen after each."""
    torch.manual_seed(0)
    inputs = [value for value in _tensors((sample.input, sample.args, sample.kwargs)) if value.requires_grad]
    for value in inputs:
        value.grad = None
    unseen = []
    seen = tracker.unseen if tracker.engine != "allocator" else dict
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tracker:
            with tracker.phase("forward"):
                out = op(sample.input, *sample.args, **sample.kwargs)
            unseen.append(sum(seen().values()))
            roots = [value for value in _tensors(out) if value.grad_fn is not None and not value.is_sparse]
            if inputs and roots:
                with tracker.phase("backward"):
                    gradients = [torch.ones_like(value) for value in roots]
                    torch.autograd.backward(roots, gradients)
                    del gradients
                unseen.append(sum(seen().values()))
        del out
    for value in inputs:
        value.grad = None
    return unseen


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [found for item in value.values() for found in _tensors(item)]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in _tensors(item)]
    return []


def samples(op: Any, count: int) -> list[Any]:
    """The first sample inputs of an operation, in the first dtype of f32, f64, i64, bool, c64 that it takes."""
    taken = op.supported_dtypes("cpu")
    wanted = (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64)
    dtype = next((dtype for dtype in wanted if dtype in taken), None)
    if dtype is None:
        return []
    gradients = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradients), count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1, help="sample inputs of each operation")
    parser.add_argument("names", nargs="*", help="only these operations")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    failed = []
    for op in operations():
        if options.names and op.name not in options.names:
            continue
        try:
            for sample in samples(op, options.samples):
                result = compare(op, sample)
                for phase, (tracker, unseen, allocator) in result.held.items():
                    count, (ours, truth) = counts[phase], result.peak[phase]
                    count["runs"] += 1
                    count["held exact"] += result.exact(phase)
                    count["held exact without names"] += tracker == allocator
                    count["peak exact"] += ours == truth
                    count["peak within 64 B"] += 0 < truth - ours <= 64
                    count["kernel scratch above 64 B"] += truth - ours > 64
                    count["peak too high"] += ours > truth
                    if not result.exact(phase) or ours > truth:
                        print(f"{result.op} {phase}: held {tracker} + {unseen} of {allocator}, peak {ours} of {truth}")
        except Exception as error:  # an operation's own sample fails to run: say so, and go on with the others
            failed.append(f"{op.name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    names = list(dict.fromkeys(name for count in counts.values() for name in count))
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, CPU, one thread")
    print(f"{'':28}" + "".join(f"{phase:>12}" for phase in counts))
    for name in names:
        print(f"{name:28}" + "".join(f"{count[name]:12}" for count in counts.values()))
    print(f"did not run: {len(failed)}")
    for line in failed:
        print(" ", line)
    return int(any(count["held exact"] != count["runs"] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())

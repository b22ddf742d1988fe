"""The tracker against the CPU's allocator, on every operation that PyTorch's own test suite knows.

Each operation runs twice on the same inputs, once under a ``MemoryTracker``, which is judged, and once under the
profiler, which knows what the allocator hands out. Compared are bytes held after forward (with the result alive) and
after backward, and the peaks. Prints one table and the operations that differ.
"""

import argparse
import collections
import contextlib
import io
import itertools
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.allocator import Allocator
from course_utils.memory import MemoryTracker


@dataclass
class Bytes:
    """What both say about one phase, in bytes above the start."""

    held: int
    unseen: int
    allocator_held: int
    peak: int
    allocator_peak: int
    held_under_a_mode: int | None = None
    peak_under_a_mode: int | None = None

    @property
    def exact(self) -> bool:
        """The tracker's bytes, and those it names as unseen, are the allocator's."""
        return self.held + self.unseen == self.allocator_held

    @property
    def explained(self) -> bool:
        """They are exact, or exact for what PyTorch runs while a dispatch mode is active."""
        return self.exact or self.held + self.unseen == self.held_under_a_mode

    @property
    def peak_is_lower_bound(self) -> bool:
        """The tracker's peak is at most the allocator's, or at most that under a dispatch mode."""
        return self.peak <= self.allocator_peak or self.peak <= (self.peak_under_a_mode or 0)


def operations() -> list[Any]:
    """PyTorch's list of operations with sample inputs (``OpInfo``)."""
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def compare(op: Any, sample: Any) -> dict[str, Bytes]:
    """Runs one operation on one sample under both: bytes by phase."""
    result: dict[str, Bytes] = {}
    run(op, sample, MemoryTracker(device="cpu"))  # fills the caches that some kernels keep
    tracker = MemoryTracker(device="cpu")
    unseen = run(op, sample, tracker)
    allocator = Allocator()
    run(op, sample, allocator)
    for ours, truth, beside in zip(tracker.phases, allocator.phases, unseen, strict=True):
        result[ours.name] = Bytes(ours.end, beside, truth.end, ours.peak, truth.peak)
    if any(not found.exact or found.peak > found.allocator_peak for found in result.values()):
        # PyTorch writes some formulas twice, and takes the one without in-place operations while any dispatch mode is
        # active (isTensorSubclassLike in ATen): then the count is right for what ran, and this tells.
        allocator = Allocator()
        with EmptyMode():
            run(op, sample, allocator)
        for found, truth in zip(result.values(), allocator.phases, strict=True):
            found.held_under_a_mode, found.peak_under_a_mode = truth.end, truth.peak
    return result


class EmptyMode(TorchDispatchMode):
    """A dispatch mode that only passes on what it is asked."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def run(op: Any, sample: Any, tracker: MemoryTracker | Allocator) -> list[int]:
    """One forward and, where possible, one backward; returns the bytes that graphs hold unseen after each."""
    torch.manual_seed(0)
    inputs = [value for value in _tensors((sample.input, sample.args, sample.kwargs)) if value.requires_grad]
    for value in inputs:
        value.grad = None
    unseen = []
    seen = tracker.unseen if isinstance(tracker, MemoryTracker) else dict
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tracker:
            with tracker.phase("forward"):
                out = op(sample.input, *sample.args, **sample.kwargs)
            unseen.append(sum(seen().values()))
            if inputs and any(value.grad_fn is not None for value in _tensors(out)):
                with tracker.phase("backward"):
                    # Some results have a gradient only in part: OpInfo knows which.
                    wanted = _tensors(sample.output_process_fn_grad(out))
                    roots = [value for value in wanted if value.requires_grad and not value.is_sparse]
                    gradients = [torch.ones_like(value) for value in roots]
                    if roots:
                        torch.autograd.backward(roots, gradients)
                    del wanted, roots, gradients
                unseen.append(sum(seen().values()))
        del out
    for value in inputs:
        value.grad = None
    return unseen


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


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
                for phase, found in compare(op, sample).items():
                    scratch = found.allocator_peak - found.peak
                    counts[phase].update(
                        {
                            "runs": 1,
                            "held: exact": found.exact,
                            "  of them with boxed scalars or RNG states by name": found.exact and found.unseen > 0,
                            "held: exact for what a mode makes PyTorch run": not found.exact and found.explained,
                            "held: unexplained": not found.explained,
                            "peak: exact": scratch == 0,
                            "peak: up to 64 B of scratch": 0 < scratch <= 64,
                            "peak: more scratch inside kernels": scratch > 64,
                            "peak: higher, as a mode makes PyTorch run": scratch < 0 and found.peak_is_lower_bound,
                            "peak: too high": not found.peak_is_lower_bound,
                        }
                    )
                    if not found.exact or not found.peak_is_lower_bound:
                        print(f"{op.name} {op.variant_test_name}, {phase}: {found}")
        except Exception as error:  # an operation's own sample fails to run: say so, and go on with the others
            failed.append(f"{op.name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, CPU, one thread")
    print(f"{'':52}" + "".join(f"{phase:>10}" for phase in counts))
    for name in dict.fromkeys(name for count in counts.values() for name in count):
        print(f"{name:52}" + "".join(f"{count[name]:10}" for count in counts.values()))
    print(f"did not run: {len(failed)}")
    for line in failed:
        print(" ", line)
    return int(any(count["held: unexplained"] or count["peak: too high"] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())

"""The tracker against what the allocators themselves say."""

import contextlib
import itertools

import pytest
import torch

from benchmarks.allocator import Allocator
from benchmarks.memory_sweep import EmptyMode, compare, operations, samples
from course_utils.memory import MemoryTracker, tracker
from course_utils.memory.cuda import Totals
from tests.memory_workloads import MORE, SECTION_4

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]  # kernels take scratch memory for each

WORKLOADS = {**SECTION_4, **MORE}

# Scratch memory inside kernels, which no operation shows: bytes by which the allocator's peak exceeds the tracker's.
# oneDNN reorders weights and images in convolutions and recurrent layers; other kernels take buffers of their own.
HAS_SCRATCH = {
    "gated_conv",
    "conv_no_grad",
    "out=",
    "sparse",
    "LayerNorm",
    "BatchNorm",
    "LSTM",
    "conv channels_last",
    "embedding",
}
# A backward that PyTorch writes without in-place operations while any dispatch mode is active takes more for a moment:
# the tracker's peak is that of what ran.
HIGHER_UNDER_A_MODE = {"GRU"}
# Peaks taken while autograd or an optimizer has boxed scalars, or checkpoint random states, beside the tensors.
HAS_UNSEEN = {"mlp_steps", "checkpointed", "checkpointed_reentrant", "loss_list", "loss_list_items"}
HAS_UNSEEN |= {"custom Function", "AdamW loop", "AdamW foreach"}


def by_allocator(make, around=contextlib.nullcontext):
    """Its phases."""
    torch.manual_seed(0)
    work = make("cpu")
    with around(), Allocator() as allocator:
        kept = work.run(allocator.phase)
    del kept
    return allocator.phases


def by_tracker(make):
    """Its phases, and the unseen bytes at the end of each."""
    torch.manual_seed(0)
    work = make("cpu")
    unseen = []

    @contextlib.contextmanager
    def phase(name):
        with mem.phase(name):
            yield
        unseen.append(sum(mem.unseen().values()))

    with MemoryTracker(*work.known, device="cpu") as mem:
        kept = work.run(phase)
    del kept
    return mem.phases, unseen


@pytest.mark.parametrize("name", WORKLOADS)
def test_held_bytes_are_the_allocators_in_every_phase(name):
    WORKLOADS[name]("cpu").run(contextlib.nullcontext)  # what kernels and transforms make once, and keep
    ours, unseen = by_tracker(WORKLOADS[name])
    truth = by_allocator(WORKLOADS[name])
    assert len(ours) == len(truth) == len(unseen) > 0
    assert [phase.end + beside for phase, beside in zip(ours, unseen, strict=True)] == [phase.end for phase in truth]
    beyond = [b.peak - a.peak for a, b in zip(ours, truth, strict=True)]
    if name in HIGHER_UNDER_A_MODE:
        under_a_mode = by_allocator(WORKLOADS[name], EmptyMode)
        assert min(beyond) < 0
        assert all(a.peak <= b.peak for a, b in zip(ours, under_a_mode, strict=True))
    elif name in HAS_SCRATCH:
        assert min(beyond) >= 0 < max(beyond)
    elif name in HAS_UNSEEN:
        # At most what was unseen at a time: 4 scalars in an optimizer's step, 3 random states in the checkpoints.
        assert min(beyond) >= 0 < max(beyond) <= 3 * torch.get_rng_state().nbytes
    else:
        assert set(beyond) == {0}


# A device's allocator, played by a stand-in: what the code makes of its totals.


class FakeAllocator:
    """Totals of an imaginary device that rounds to 512 bytes."""

    def __init__(self, start):
        self.now = self.peak = start

    def move(self, delta):
        self.now += delta
        self.peak = max(self.peak, self.now)

    def totals(self):
        rounded = -(-self.now // 512) * 512
        return Totals(rounded, self.now, 1 << 21, self.peak)


@pytest.fixture
def fake(monkeypatch):
    allocator = FakeAllocator(5000)
    monkeypatch.setattr(Totals, "exist_for", staticmethod(lambda device: True))
    monkeypatch.setattr(Totals, "now", staticmethod(lambda device: allocator.totals()))
    monkeypatch.setattr(tracker, "reset_peaks", lambda device: setattr(allocator, "peak", allocator.now))
    return allocator


def test_report_puts_the_allocators_totals_beside_the_tensors(fake):
    with MemoryTracker(device="cuda:0") as mem:
        fake.move(10000)  # the kernel's workspace, say
        fake.move(-9000)
    report = mem.report()
    assert (report.requested, report.peak, report.allocator_peak, report.scratch) == (0, 0, 10000, 10000)
    assert (report.allocated, report.reserved) == (6144 - 5120, 0)
    lines = str(report).splitlines()
    assert "Peak by the allocator: 9.8 KiB, of it kernel scratch and workspaces: 9.8 KiB" in lines
    assert "Allocated in the device's blocks: 1.0 KiB" in lines


@pytest.mark.parametrize("module", ["cuda", "xpu"])
def test_statistics_are_read_by_their_names(monkeypatch, module):
    numbers = {
        "allocated_bytes.all.current": 1,
        "requested_bytes.all.current": 2,
        "reserved_bytes.all.current": 3,
        "allocated_bytes.all.peak": 4,
        "requested_bytes.all.peak": 5,
    }
    monkeypatch.setattr(getattr(torch, module), "memory_stats", lambda device: numbers)
    assert Totals.now(module) == Totals(1, 2, 3, 5)
    del numbers["requested_bytes.all.current"]
    assert Totals.now(module) == Totals(1, 1, 3, 4)


def test_cpu_and_meta_have_no_statistics():
    assert not Totals.exist_for("cpu")
    assert not Totals.exist_for("meta")
    assert MemoryTracker(device="cpu").report().allocator_peak is None


# A part of the sweep over PyTorch's own list of operations; `make sweep` runs all of it.

_NAMES = """
abs add addmm all amax argmax baddbmm bmm cat chunk clamp_min cos cumsum diag div einsum erf exp expand flatten fmod
gather hypot index_add index_select lerp linalg.cholesky linalg.inv linalg.norm log_softmax logcumsumexp masked_fill
matmul mean mm mul narrow nn.functional.batch_norm nn.functional.conv2d nn.functional.cross_entropy
nn.functional.dropout nn.functional.embedding nn.functional.gelu nn.functional.layer_norm nn.functional.linear
nn.functional.max_pool2d nn.functional.relu nn.functional.scaled_dot_product_attention nonzero norm outer permute pow
reshape rsub scatter_add sigmoid softmax stack std sum tanh topk tril unbind var where
"""
SUBSET = _NAMES.split()


@pytest.fixture(scope="module")
def listed():
    by_name = {}
    for op in operations():
        by_name.setdefault(op.name, op)
    return by_name


@pytest.mark.nightly
@pytest.mark.parametrize("names", [tuple(itertools.islice(SUBSET, i, None, 6)) for i in range(6)], ids=" ".join)
def test_held_bytes_of_single_operations_are_the_allocators(listed, names):
    for name in names:
        for sample in samples(listed[name], 1):
            for phase, found in compare(listed[name], sample).items():
                assert found.exact, f"{name}, {phase}: {found}"
                assert found.peak_is_lower_bound, f"{name}, {phase}: {found}"


def test_subset_has_sixty_operations_or_more(listed):
    assert len(SUBSET) == len(set(SUBSET)) >= 60
    assert set(SUBSET) <= set(listed)

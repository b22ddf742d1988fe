"""The dispatch engine against what the allocators themselves say."""

import contextlib
import itertools
import os

import pytest
import torch

from benchmarks.memory_sweep import EmptyMode, compare, operations, samples
from course_utils.memory import MemoryTracker, statistics
from course_utils.memory.statistics import Totals
from tests.memory_workloads import MORE, SECTION_4

pytestmark = pytest.mark.slow

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


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # kernels take scratch memory for each thread
    yield
    torch.set_num_threads(before)


def measure(make, engine, around=contextlib.nullcontext):
    """Phases, and the unseen bytes by name at the end of each; the tracker itself."""
    torch.manual_seed(0)
    work = make("cpu")
    unseen = []
    with around(), MemoryTracker(*work.known, device="cpu", engine=engine) as mem:

        class Phase:
            def __init__(self, name):
                self.phase = mem.phase(name)

            def __enter__(self):
                return self.phase.__enter__()

            def __exit__(self, *error):
                self.phase.__exit__(*error)
                if engine != "allocator":
                    unseen.append(sum(mem.unseen().values()))

        kept = work.run(Phase)
    del kept
    return mem, unseen


@pytest.mark.parametrize("name", WORKLOADS)
def test_held_bytes_are_the_allocators_in_every_phase(name):
    WORKLOADS[name]("cpu").run(contextlib.nullcontext)  # what kernels and transforms make once, and keep
    ours, unseen = measure(WORKLOADS[name], "dispatch")
    truth, _ = measure(WORKLOADS[name], "allocator")
    assert len(ours.phases) == len(truth.phases) == len(unseen) > 0
    assert [phase.end + beside for phase, beside in zip(ours.phases, unseen, strict=True)] == [
        phase.end for phase in truth.phases
    ]
    beyond = [b.peak - a.peak for a, b in zip(ours.phases, truth.phases, strict=True)]
    if name in HIGHER_UNDER_A_MODE:
        under_a_mode, _ = measure(WORKLOADS[name], "allocator", EmptyMode)
        assert min(beyond) < 0
        assert all(a.peak <= b.peak for a, b in zip(ours.phases, under_a_mode.phases, strict=True))
    elif name in HAS_SCRATCH:
        assert min(beyond) >= 0 < max(beyond)
    elif name in HAS_UNSEEN:
        # At most what was unseen at a time: 4 scalars in an optimizer's step, 3 random states in the checkpoints.
        assert min(beyond) >= 0 < max(beyond) <= 3 * torch.get_rng_state().nbytes
    else:
        assert set(beyond) == {0}


def test_engine_allocator_agrees_with_arithmetic():
    with MemoryTracker(engine="allocator") as mem:
        with mem.phase("first"):
            a = torch.ones(1000)
        with mem.phase("second"):
            b = a.exp()
            del a
    assert [(phase.name, phase.start, phase.end, phase.peak) for phase in mem.phases] == [
        ("first", 0, 4000, 4000),
        ("second", 4000, 4000, 8000),
    ]
    assert [(event.op, event.delta) for event in mem.events] == [
        ("aten::ones", 4000),
        ("aten::exp", 4000),
        ("aten::ones", -4000),
    ]
    assert (mem.current, mem.peak, mem.report().engine) == (4000, 8000, "allocator")
    del b


def test_engine_allocator_tells_gradients_of_known_objects():
    model = torch.nn.Linear(100, 10)
    with MemoryTracker(model, engine="allocator") as mem:
        model(torch.ones(4, 100)).sum().backward()
    assert mem.report().categories["gradients"] == 4040


def test_engine_allocator_counts_boxed_scalars_itself():
    x = torch.ones(10, requires_grad=True)
    with MemoryTracker(x, engine="allocator") as mem:
        y = x * 2.0
    assert mem.current == 48
    assert mem.unseen() == {}
    del y


def test_engine_allocator_has_no_figures_inside_its_block():
    with MemoryTracker(engine="allocator") as mem:
        for read in (lambda: mem.current, lambda: mem.peak, lambda: mem.events, mem.report, mem.timeline, mem.unseen):
            with pytest.raises(ValueError, match="after the with block"):
                read()
        assert repr(mem) == "MemoryTracker on cpu, open"


def test_engine_allocator_refuses_a_second_profiler():
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True),
        pytest.raises(ValueError, match="while a profiler is running"),
        MemoryTracker(engine="allocator"),
    ):
        pass
    with MemoryTracker(engine="allocator") as mem:
        kept = torch.ones(10)
    assert mem.current == 40
    del kept


def test_engine_allocator_survives_an_exception():
    with pytest.raises(ZeroDivisionError), MemoryTracker(engine="allocator") as mem, mem.phase("work"):
        torch.ones(1000)
        raise ZeroDivisionError
    assert (mem.phases[0].peak, mem.current) == (4000, 0)


def test_engine_allocator_is_not_for_meta():
    with pytest.raises(ValueError, match="a device whose allocator can be asked"):
        MemoryTracker(device="meta", engine="allocator")


def test_engine_allocator_passes_other_lines_of_stderr_on(capfd):
    from course_utils.memory.profiler import _without_trace_lines

    with _without_trace_lines():
        os.write(2, b"USDT:2026 profiler_start\na warning\n")
    assert capfd.readouterr().err == "a warning\n"


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
    monkeypatch.setattr(statistics, "reset_peaks", lambda device: setattr(allocator, "peak", allocator.now))
    return allocator


def test_totals_of_a_device_become_phases(fake):
    with MemoryTracker(device="cuda:0", engine="allocator") as mem:
        with mem.phase("up"):
            fake.move(3000)
            fake.move(-1000)
        assert mem.current == 2000
        with mem.phase("down"):
            fake.move(-2500)
    assert [(phase.start, phase.end, phase.peak) for phase in mem.phases] == [(0, 2000, 3000), (2000, -500, 2000)]
    assert (mem.current, mem.peak) == (-500, 3000)


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


@pytest.mark.parametrize("names", [tuple(itertools.islice(SUBSET, i, None, 6)) for i in range(6)], ids=" ".join)
def test_held_bytes_of_single_operations_are_the_allocators(listed, names):
    for name in names:
        for sample in samples(listed[name], 1):
            for phase, found in compare(listed[name], sample).phases.items():
                assert found.exact, f"{name}, {phase}: {found}"
                assert found.peak_is_lower_bound, f"{name}, {phase}: {found}"


def test_subset_has_sixty_operations_or_more(listed):
    assert len(SUBSET) == len(set(SUBSET)) >= 60
    assert set(SUBSET) <= set(listed)

"""The tracker's numbers against arithmetic, its manners, and its errors."""

import contextlib
import gc
import json
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils.memory import CATEGORIES, MemoryEvent, MemoryTracker
from course_utils.memory.known import Known
from tests.memory_workloads import SECTION_4, mlp_data, mlp_model

BASE = "base = torch.ones(10, 10)"
LEAF = "x = torch.ones(1000, requires_grad=True); x.grad = torch.ones(1000)"
TWO = "from torch.testing._internal.two_tensor import TwoTensor as two_tensor"
THREAD = "import threading; kept = []; thread = threading.Thread(target=lambda: kept.append(torch.empty(100)))"

SUMS = {  # what is done inside -> before it, and bytes at the end and at the peak; x is named where there is one
    "first, second = torch.empty(100), torch.empty(50, dtype=torch.float64); del first": ("", 400, 800),
    "views = base[2], base.T, base.view(100), base.detach(), *base.unbind(0), base.expand(3, 10, 10)": (BASE, 0, 0),
    "row = torch.ones(100, 10)[0]": ("", 4000, 4000),  # the view keeps the whole
    "base.add_(1).mul_(2).clamp_(0); base[3].fill_(5)": (BASE, 0, 0),
    "copies = base.contiguous(), base.T.contiguous(), base.to(torch.float32), base.double()": (BASE, 1200, 1200),
    "torch.add(torch.ones(100), 1, out=out)": ("out = torch.empty(0)", 400, 800),
    "literal = torch.tensor([1.0, 2.0, 3.0])": ("", 12, 12),  # no operation makes it
    "y = torch.from_numpy(__import__('numpy').ones(1000)) + 1": ("", 8000, 8000),  # the array is not PyTorch's memory
    "del x": ("x = torch.ones(1000)", -4000, 0),
    "y = other.exp(); del other": ("other = torch.ones(1000)", 0, 4000),  # not named, but an operation met it
    "x.grad = None": (LEAF, -4000, 0),
    "x.data = torch.zeros(3000)": (LEAF, 8000, 12000),
    "x.grad = torch.zeros(1000) + 1": (LEAF, 0, 8000),
    "x.sum().backward()": (LEAF, 0, 8),  # added to the gradient that is there
    "(x * 2).sum().backward()": ("x = torch.ones(1000, requires_grad=True)", 4000, 4008),
    "pair = two_tensor(torch.ones(10), torch.ones(10)) * 2": (TWO, 80, 160),  # a wrapper counts what is inside
    "total = torch.ones(10).as_subclass(type('Named', (torch.Tensor,), {})) + 1": ("", 40, 80),
    "thread.start(); thread.join()": (THREAD, 0, 0),  # the stated limit
    # Indices i64 and values f32; the columns of CSR are a view that keeps both rows of COO's indices; the oneDNN tensor
    # keeps its memory to itself.
    "y = x.to_sparse()": ("x = torch.eye(4)", 80, 80),
    "y = x.to_sparse_csr()": ("x = torch.eye(4)", 120, 120),
    "y = x.to_mkldnn()": ("x = torch.eye(4)", 0, 0),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("code", SUMS)
def test_bytes_at_the_end_and_at_the_peak(code):
    before, current, peak = SUMS[code]
    space = {"torch": torch}
    exec(before, space)
    with MemoryTracker(space.get("x")) as mem:
        exec(code, space)
        now = mem.current, mem.peak
    space.clear()  # after the block it changes nothing
    assert (mem.current, mem.peak) == now == (current, peak)


def test_resize_counts_the_difference():
    x = torch.empty(10)
    with MemoryTracker(x) as mem:
        x.resize_(1000)
        assert mem.current == 3960
        x.untyped_storage().resize_(0)  # no operation: read again when a phase or the block ends
        with mem.phase("look"):
            pass
        assert mem.current == -40


def test_exception_closes_the_tracker_and_its_phases():
    with pytest.raises(ZeroDivisionError), MemoryTracker() as mem:
        kept = torch.empty(10)
        with mem.phase("outer"), mem.phase("inner"):
            torch.empty(100)
            raise ZeroDivisionError
    assert [(phase.name, phase.start, phase.end, phase.peak) for phase in mem.phases] == [
        ("outer", 40, 40, 440),
        ("inner", 40, 40, 440),
    ]
    assert torch._C._len_torch_dispatch_stack() == 0
    assert mem.current == 40


def test_nested_trackers_agree():
    with MemoryTracker() as outer:
        before = torch.empty(100)
        with MemoryTracker(before) as inner, inner.phase("work"):
            y = torch.ones(1000).exp()
            del before
        after = torch.empty(10)
    assert (outer.current, inner.current) == (4000 + 40, 4000 - 400)
    assert [event.delta for event in outer.events[1:-1]] == [event.delta for event in inner.events]
    del y, after


def test_trackers_may_be_left_in_any_order():
    first, second = MemoryTracker(), MemoryTracker()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    kept = torch.empty(10)
    second.__exit__(None, None, None)
    assert (first.current, second.current) == (0, 40)
    assert torch._C._len_torch_dispatch_stack() == 0
    del kept


def test_tracker_used_in_another_thread():
    found = []

    def work():
        model, (x, y) = mlp_model("cpu"), mlp_data("cpu")
        with MemoryTracker(model, x, y) as mem:
            with mem.phase("forward"):
                loss = nn.functional.cross_entropy(model(x), y)
            found.append(mem.current)
            with mem.phase("backward"):
                loss.backward()
        found.extend(phase.end for phase in mem.phases)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    forward = 3 * 64 * 512 * 4 + 64 * 10 * 4 + 4 + 4  # three hidden layers, log-probabilities, loss, its weight
    parameters = sum(p.numel() for p in mlp_model("meta").parameters())
    assert found == [forward, forward, parameters * 4 + 4]


def test_tracker_abandoned_in_a_thread_leaves_no_trace_in_others():
    entered, stop = threading.Event(), threading.Event()

    def work():
        MemoryTracker().__enter__()
        entered.set()
        stop.wait()

    # PyTorch's own modes set this flag for the process, so whoever ran before may have left it set.
    before = torch.utils._python_dispatch.is_in_torch_dispatch_mode()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    entered.wait()
    try:
        assert torch.utils._python_dispatch.is_in_torch_dispatch_mode() == before
        with MemoryTracker() as mem:
            kept = torch.empty(10)
        assert mem.current == 40
        del kept
    finally:
        stop.set()
        thread.join()


def test_tracker_inside_a_function_transform():
    numbers = []

    def f(x):
        with MemoryTracker() as mem:
            y = x.exp()
        numbers.append(mem.current)
        return y.sum()

    torch.func.grad(f)(torch.ones(10))
    torch.func.vmap(f)(torch.ones(5, 10))
    assert numbers == [40, 200]


@pytest.mark.parametrize("outside", [True, False])
def test_other_modes_may_be_inside_or_outside(outside):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    mem, flops = MemoryTracker(device="cpu"), FlopCounterMode(display=False)
    with contextlib.ExitStack() as stack:
        for context in (flops, mem) if outside else (mem, flops):
            stack.enter_context(context)
        x = torch.ones(10, 10, requires_grad=True)
        (x @ x).sum().backward()
        del x
    assert flops.get_total_flops() == 3 * 2 * 10**3
    # x, the gradient by each side of the product, their sum; the loss and its gradient.
    assert (mem.current, mem.peak) == (0, 4 * 400 + 2 * 4)
    fake = MemoryTracker(device="cpu")
    with contextlib.ExitStack() as stack:
        for context in (FakeTensorMode(), fake) if outside else (fake, FakeTensorMode()):
            stack.enter_context(context)
        x = torch.ones(10, 10, requires_grad=True)
        (x @ x).sum().backward()
        del x
    assert fake.peak == mem.peak


@pytest.mark.parametrize("name", [name for name in SECTION_4 if name != "loss_list_items"])  # meta has no values
def test_meta_predicts_the_cpu_without_memory(name):
    numbers, trackers = [], []
    for device in ("cpu", "meta"):
        work = SECTION_4[name](device)
        with MemoryTracker(*work.known, device=device) as mem:
            kept = work.run(mem.phase)
        # Adam keeps its step counters on the CPU: 4 bytes for each of 8 parameters, from the first step on.
        counters = 32 if name == "mlp_steps" and device == "cpu" else 0
        stepped = [counters * (position >= 2) for position in range(len(mem.phases))]
        numbers.append([(p.end - n, p.peak - n) for p, n in zip(mem.phases, stepped, strict=True)])
        trackers.append(mem)
    assert numbers[0] == numbers[1]
    assert trackers[1].report().elsewhere == ({"cpu": 32} if name == "mlp_steps" else {})


def test_devices_are_counted_apart():
    with MemoryTracker() as mem:
        here, there = torch.empty(10), torch.empty(1000, device="meta")
    assert (mem.device, mem.current) == ("cpu", 40)
    assert mem.report().elsewhere == {"meta": 4000}
    with MemoryTracker(there) as mem:
        more = torch.empty(5, device="meta")
    assert (mem.device, mem.current) == ("meta", 20)
    with torch.device("meta"):
        assert MemoryTracker().device == "meta"


# Categories, timeline, report.


def train(mem, model, optimizer, x, y):
    with mem.phase("forward"):
        loss = nn.functional.cross_entropy(model(x), y)
    with mem.phase("backward"):
        loss.backward()
    with mem.phase("step"):
        optimizer.step()
    return loss


@pytest.fixture
def trained():
    model, (x, y) = mlp_model("cpu"), mlp_data("cpu")
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    with MemoryTracker(model, optimizer, x, y) as mem:
        loss = train(mem, model, optimizer, x, y)
    return mem, model, optimizer, loss


def test_categories_are_an_exact_partition(trained):
    mem, model, _, loss = trained
    parameters = list(model.parameters())
    nbytes = sum(p.nbytes for p in parameters)
    report = mem.report()
    assert {name: size for name, size in report.categories.items() if size} == {
        "gradients": nbytes,
        "optimizer state": 2 * nbytes + 4 * len(parameters),
        "other": loss.nbytes,
    }
    assert sum(report.categories.values()) == report.requested == mem.current
    assert sum(report.peak_categories.values()) == report.peak == mem.peak
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["requested"] == report.requested and plain["categories"] == report.categories
    assert plain["phases"][1]["net"] == report.phases[1].net


def test_saved_for_backward_is_known_in_forward_and_gone_after_backward(trained):
    mem = trained[0]
    saved = mem.timeline().categories["saved for backward"]
    after_forward = mem.phases[1].first_event
    # Three hidden layers, log-probabilities, total weight; the loss itself is a result.
    assert saved[after_forward] == 3 * 64 * 512 * 4 + 64 * 10 * 4 + 4
    assert saved[-1] == 0


def test_graph_of_another_thread_is_gone_through_though_its_nodes_have_numbers_of_its_own():
    weight, products = torch.ones(100, requires_grad=True), []
    for _ in range(100):
        weight * 2  # this thread's numbers are past those of a new one
    with MemoryTracker(weight) as mem:
        x = torch.ones(100)
        thread = threading.Thread(target=lambda: products.append(x * weight))
        thread.start()
        thread.join()
        loss = products[0] + 1
    assert mem.report().categories["saved for backward"] == x.nbytes == 400
    del loss


def test_older_memory_completes_the_sum():
    x = torch.ones(1000)
    with MemoryTracker(x) as mem:
        y = x.exp()
        del x
    report = mem.report()
    assert (report.categories["other"], report.categories["older"], report.requested) == (4000, -4000, 0)


def test_timeline_sums_to_current_at_every_event(trained):
    mem = trained[0]
    timeline = mem.timeline()
    count = len(mem.events) + 1
    assert len(timeline.current) == len(timeline.time_ns) == len(timeline.older) == count
    for point in range(count):
        parts = sum(values[point] for values in timeline.categories.values()) + timeline.older[point]
        assert parts == timeline.current[point]
    assert timeline.current[1:] == tuple(event.current for event in mem.events)
    assert timeline.current[timeline.peak_event] == timeline.peak == max(timeline.current)
    assert set(timeline.categories) <= set(CATEGORIES)
    assert list(timeline.time_ns) == sorted(timeline.time_ns)


def test_phases_point_into_the_events(trained):
    mem = trained[0]
    current = mem.timeline().current
    for phase in mem.phases:
        assert current[phase.first_event] == phase.start
        assert current[phase.last_event] == phase.end
        assert max(current[phase.first_event : phase.last_event + 1]) == phase.peak
        assert {event.phase for event in mem.events[phase.first_event : phase.last_event]} <= {phase.name}


def test_events_number_storages_by_appearance():
    with MemoryTracker() as mem:
        a = torch.empty(10)
        with mem.phase("p"):
            b = torch.empty(20)
            del a
    assert mem.events == (
        MemoryEvent(0, "aten::empty", "", 40, 40, 0, "cpu"),
        MemoryEvent(1, "aten::empty", "p", 80, 120, 1, "cpu"),
        MemoryEvent(2, "aten::empty", "p", -40, 80, 0, "cpu"),
    )
    del b


def test_report_reads_as_a_table():
    # The result of exp, 4000 bytes, goes when the gradient has been made from it; the loss and its gradient have 4.
    x = torch.ones(1000, requires_grad=True)
    with MemoryTracker(x) as mem:
        with mem.phase("forward"):
            loss = x.exp().sum()
        with mem.phase("backward"):
            loss.backward()
    assert str(mem.report()).splitlines() == [
        "Memory on cpu, above the start: 3.9 KiB at the end, peak 7.8 KiB after aten::mul",
        "",
        "phase       start      end      net     peak  peak after",
        "forward       0 B  3.9 KiB  3.9 KiB  3.9 KiB  aten::sum",
        "backward  3.9 KiB  3.9 KiB      0 B  7.8 KiB  aten::mul",
        "",
        "category            at the end  at the peak",
        "gradients              3.9 KiB      3.9 KiB",
        "saved for backward         0 B      3.9 KiB",
        "temporary                  0 B          4 B",
        "other                      4 B          4 B",
        "sum                    3.9 KiB      7.8 KiB",
    ]
    assert "| forward | 0 B | 3.9 KiB | 3.9 KiB | 3.9 KiB | aten::sum |" in mem.report().to_markdown().splitlines()
    assert repr(mem) == "MemoryTracker on cpu, closed: 3.9 KiB now, peak 7.8 KiB, 2 phases"
    assert str(mem.phases[0]) == "forward: net 3.9 KiB, peak 3.9 KiB after aten::sum"


def test_report_tells_what_it_does_not_count():
    x = torch.ones(10, requires_grad=True)
    with MemoryTracker(x) as mem:
        loss = (x * 2.0).sum()  # autograd keeps the 2.0 as a tensor of 8 bytes
    assert mem.unseen() == mem.report().unseen == {"boxed scalars": 8}
    assert "Held beside it, made past the dispatcher (boxed scalars): 8 B" in str(mem.report())


def test_graph_older_than_the_tracker_is_not_unseen():
    x = torch.ones(10, requires_grad=True)
    old = (x * 3.0).exp()
    with MemoryTracker(x) as mem:
        new = old + 1  # its graph leads to the old one, with a 3.0 in it
    assert mem.unseen() == {}


def test_random_states_of_checkpoint_are_unseen_by_name():
    x = torch.ones(10, requires_grad=True)
    with MemoryTracker(x) as mem:
        y = checkpoint(torch.exp, x, use_reentrant=False)
        during = mem.unseen()
        y.sum().backward()
    assert during == {"RNG states": torch.get_rng_state().nbytes}
    assert mem.unseen() == {}
    del y


# Bad input.


def test_tracker_is_for_one_block_and_phases_are_inside_of_it():
    mem = MemoryTracker()
    with pytest.raises(ValueError, match="not entered yet"), mem.phase("early"):
        pass
    assert (mem.current, mem.peak, mem.phases, mem.events, mem.report().requested) == (0, 0, (), (), 0)
    with mem:
        with pytest.raises(ValueError, match="second time"), mem:
            pass
        kept = torch.empty(10)
    with pytest.raises(ValueError, match="second time"), mem:
        pass
    with pytest.raises(ValueError, match="tracker that is closed"), mem.phase("late"):
        pass
    assert mem.current == 40
    del kept


@pytest.mark.parametrize("known", [5, "model", object(), [torch.nn.Linear, 3], {"a": object()}])
def test_what_owns_no_memory_cannot_be_named(known):
    with pytest.raises(TypeError, match="modules, optimizers, tensors"):
        MemoryTracker(known)


def test_containers_and_iterators_of_known_objects():
    model = nn.Linear(10, 10)
    with MemoryTracker({"nets": [model], "more": (torch.ones(5),)}, model.parameters(), None) as mem:
        pass
    assert mem.device == "cpu"


@pytest.mark.parametrize("device", ["nowhere", "cpu:x", object()])
def test_unknown_device_is_refused(device):
    with pytest.raises(ValueError, match="cpu, cuda:0, mps or meta"):
        MemoryTracker(device=device)


# The observer changes nothing.


@pytest.mark.parametrize("name", SECTION_4)
def test_gradients_are_bitwise_equal_with_and_without_the_tracker(name):
    results = []
    for tracked in (False, True):
        torch.manual_seed(0)
        work = SECTION_4[name]("cpu")
        torch.manual_seed(1)
        mem = MemoryTracker(*work.known)
        if tracked:
            with mem:
                work.run(mem.phase)
        else:
            work.run(contextlib.nullcontext)
        results.append([number.detach() for number in Known(*work.known).everything()])
    assert len(results[0]) == len(results[1]) > 0
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_in_place_error_stays():
    def edited_exp():
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        y.sum().backward()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"), MemoryTracker():
        edited_exp()


def test_lines_are_those_that_made_the_bytes_of_every_function():
    def hidden(x):
        return x.exp()

    x = torch.ones(1000, requires_grad=True)
    with MemoryTracker(x, lines=True) as mem:
        for _ in range(2):
            y = hidden(x).sum()
        y.backward()
    found = {use.site.source: use[1:] for use in mem.lines().uses}
    assert found == {  # the second result of exp is made while the graph of the first is there
        "return x.exp()": (8000, 0, 8000),
        "y.backward()": (4004, 4000, 4004),
        "y = hidden(x).sum()": (8, 4, 8),
    }
    assert sum(alive for _, alive, _ in found.values()) == mem.current
    assert str(mem.lines()).splitlines()[0].split() == ["line", "made", "alive", "at", "most", "source"]


def test_forward_runs_as_often_as_without():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp().exp()

    x = torch.ones(10, requires_grad=True)
    with MemoryTracker(x) as mem:
        with mem.phase("forward"):
            y = checkpoint(f, x, use_reentrant=False)
        mem.unseen()
        mem.report()
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2


def test_tracker_keeps_nothing_alive():
    with MemoryTracker() as mem:
        model, (x, y) = mlp_model("cpu"), mlp_data("cpu")
        optimizer = torch.optim.Adam(model.parameters())
        named = weakref.ref(model)
        with MemoryTracker(model, optimizer, x, y) as inner:
            loss = train(inner, model, optimizer, x, y)
            inner.report()
            inner.timeline()
        del model, optimizer, x, y, loss
        gc.collect()  # an optimizer's hooks and its step are a cycle of their own
        assert named() is None
        assert mem.current == 0
    assert len(inner.events) > 0


def test_closed_tracker_is_no_garbage():
    with MemoryTracker() as mem:
        torch.ones(10)
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(mem._recorder)
        del mem
        assert gone() is None
    finally:
        gc.enable()

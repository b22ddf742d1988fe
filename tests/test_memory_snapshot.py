"""A snapshot is an exact partition of what is alive, and changes nothing."""

import gc
import json

import pytest
import torch
from torch import nn

from course_utils.graph.references import living_tensors
from course_utils.memory import MemoryTracker
from course_utils.memory.report import CATEGORIES
from course_utils.memory.snapshot import memory_snapshot
from tests.memory_workloads import mlp_data, mlp_model

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_collection():
    gc.disable()  # tensors that earlier tests left in cycles are alive, and may go at any moment
    yield
    gc.enable()


def test_every_category_holds_its_own():
    start = memory_snapshot(device="cpu")
    model = nn.Sequential(nn.Linear(100, 50), nn.BatchNorm1d(50), nn.Linear(50, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(8, 100)
    model(x).sum().backward()
    optimizer.step()
    before = memory_snapshot(model, optimizer, x)
    parameters = 4 * (100 * 50 + 50 + 50 + 50 + 50 * 10 + 10)
    assert before.parameters == before.gradients == before.optimizer_state == parameters
    assert before.buffers == 4 * (50 + 50) + 8  # two running statistics, one counter
    assert before.saved_for_backward == start.saved_for_backward  # backward has freed this one's
    hidden = torch.ones(8, 100, requires_grad=True).exp()
    grown = memory_snapshot(model, optimizer, x) - before
    assert grown.categories == {
        "parameters": 0,
        "buffers": 0,
        "gradients": 0,
        "optimizer state": 0,
        "saved for backward": 3200,  # the result of exp
        "other": 3200,  # the leaf
    }
    del hidden


def test_growth_of_the_sum_is_what_a_tracker_counts():
    model, (x, y) = mlp_model("cpu"), mlp_data("cpu")
    optimizer = torch.optim.Adam(model.parameters())
    with MemoryTracker(model, optimizer, x, y) as mem:
        start = memory_snapshot(model, optimizer, x, y)
        loss = nn.functional.cross_entropy(model(x), y)
        for work in (lambda: None, loss.backward, optimizer.step):
            work()
            assert (memory_snapshot(model, optimizer, x, y) - start).total == mem.current


def test_sum_of_a_run_from_nothing_is_current():
    with MemoryTracker() as mem:
        model = mlp_model("meta")
        x = torch.ones(64, 256, device="meta")
        loss = model(x).sum()
    with MemoryTracker(device="meta") as mem:
        before = memory_snapshot(device="meta").total
        other = mlp_model("meta")
        more = other(x).sum()
        assert memory_snapshot(other, device="meta").total - before == mem.current
    del loss, more


def test_view_counts_with_its_whole_base_once():
    before = memory_snapshot(device="cpu")
    base = torch.ones(100, 100)
    row, same = base[0], base.view(-1)
    assert (memory_snapshot(device="cpu") - before).other == 40000
    del base, same
    assert (memory_snapshot(device="cpu") - before).other == 40000
    del row
    assert (memory_snapshot(device="cpu") - before).other == 0


def test_given_leaf_that_requires_grad_is_a_parameter():
    w = torch.ones(100, requires_grad=True)
    snapshot = memory_snapshot(w)
    assert snapshot.parameters == 400
    w.grad = torch.ones(100)
    assert memory_snapshot(w).gradients == 400


def test_given_input_is_other_though_a_graph_holds_it():
    w, x = torch.ones(100, requires_grad=True), torch.ones(100)
    before = memory_snapshot(w, x)
    loss = (w * x).sum()
    assert (memory_snapshot(w, x) - before).saved_for_backward == 0
    assert (memory_snapshot(w) - memory_snapshot(w, x)).saved_for_backward == 400
    del loss


def test_snapshot_reads_as_a_table():
    w = torch.ones(1000, requires_grad=True)
    lines = str(memory_snapshot(w, device="cpu")).splitlines()
    assert lines[0] == "Tensors alive on cpu"
    assert lines[1].split(maxsplit=1) == ["parameters", "3.9 KiB"]
    assert [line.rsplit("  ", 1)[0].strip() for line in lines[1:]] == [
        *(name for name in CATEGORIES if name != "temporary"),
        "sum",
    ]
    assert len({len(line) for line in lines[1:]}) == 1  # numbers end in one column
    assert json.loads(json.dumps(memory_snapshot(w).to_dict()))["parameters"] == 4000


def test_snapshots_of_two_devices_have_no_difference():
    with pytest.raises(ValueError, match="two devices: cpu and meta"):
        memory_snapshot(device="cpu") - memory_snapshot(device="meta")
    with pytest.raises(TypeError):
        memory_snapshot(device="cpu") - 1


def test_search_finds_subclasses_and_no_proxies():
    import weakref

    class Mine(torch.Tensor):
        pass

    mine = torch.ones(3).as_subclass(Mine)
    proxy = weakref.proxy(mine)
    found = [tensor for tensor in living_tensors() if type(tensor) is Mine]
    assert len(found) == 1 and found[0] is mine
    del proxy

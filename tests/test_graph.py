"""The recorded graph as data: its bytes against the CPU allocator, its manners, its errors."""

import dataclasses
import gc
import json
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils import graph_memory
from course_utils.graph import references
from course_utils.graph.references import living
from course_utils.graph.walk import tensor_names
from course_utils.memory import MemoryTracker
from course_utils.memory.snapshot import memory_snapshot
from tests.recorded_graphs import GRAPHS, GatedNet, freed_by_dropping, gated_loss, leaf, perceptron_model

# What dropping the loss leaves alive although only the graph holds it, since somebody keeps nodes of it.
KEPT = {
    "named_output": "the output's own history",
    "trunk_shared_with_another_loss": "the other loss",
    "double_backward_and_the_first_loss": "the first loss",
    "checkpoint_with_named_output": "the output's own history",
    "circle_through_ctx": "a circle of references",
    "save_on_cpu_keeps_its_output": "a circle of references",
}
# What the in-place multiplication saved is inside CopySlices, where Python cannot look.
HIDDEN = {"multiplied_in_a_slice": 400}


@pytest.mark.parametrize("name", GRAPHS)
def test_exclusive_is_what_the_allocator_gets_back_beside_the_loss(name):
    freed, (held, of_the_loss) = freed_by_dropping(
        GRAPHS[name], lambda loss: (graph_memory(loss), loss.untyped_storage().nbytes())
    )
    assert (name in HIDDEN) <= ("CopySlices" in held.hidden)
    if name in KEPT:
        assert freed < held.exclusive + of_the_loss
    else:
        assert freed == held.exclusive + of_the_loss + HIDDEN.get(name, 0)


@pytest.mark.parametrize("name", GRAPHS)
def test_total_is_shared_and_exclusive_and_counts_each_storage_once(name):
    loss, _keep = GRAPHS[name]()
    held = graph_memory(loss)
    sizes = {saved.storage: saved.storage_nbytes for saved in held.saved if saved.storage >= 0}
    assert held.total == held.shared + held.exclusive
    if name != "sparse_matrix":  # there one tensor stands on two storages
        assert held.total == sum(sizes.values())
    assert sum(node.kept for node in held.nodes) == held.exclusive
    assert json.loads(json.dumps(held.to_dict()))["total"] == held.total


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["perceptron", "views", "embedding", "view_of_a_base_that_is_gone"])
def test_exclusive_is_what_the_gpu_gets_back(name):
    """On graphs that save no scalars, which stay on the CPU."""

    def requested():
        return torch.cuda.memory_stats()["requested_bytes.all.current"]

    with torch.device("cuda"):
        loss, _keep = GRAPHS[name]()
    held = graph_memory(loss)
    boxed = sum(saved.nbytes for saved in held.saved if saved.dtype in ("f64", "i64") and not saved.shape)
    expected, before = held.exclusive + loss.untyped_storage().nbytes() - boxed, requested()
    del loss
    assert before - requested() == expected


@pytest.mark.parametrize(
    "inside",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.device("meta"),
        lambda: torch.autograd.graph.saved_tensors_hooks(lambda tensor: 1 / 0, lambda packed: packed),
        MemoryTracker,
    ],
)
def test_counting_is_learned_outside_of_what_the_caller_is_inside_of(inside):
    references._owner_references.cache_clear()
    x = leaf(100)
    loss = x.exp().sum()
    with inside():
        assert graph_memory(loss).exclusive == 400


# What the data say. (Losses get a name first: an assert keeps what stands in it alive.)


def test_the_graph_of_two_operations():
    x = torch.ones(256, requires_grad=True)
    loss = (x.exp() * 2.0).sum()
    held = graph_memory(loss, names={"x": x})
    assert [node.label for node in held.nodes] == ["Sum", "Mul", "Exp", "AccumulateGrad"]
    assert held.edges == ((0, 1), (1, 2), (2, 3))
    assert [(saved.node, saved.slot, saved.shape, saved.dtype, saved.nbytes) for saved in held.saved] == [
        ("MulBackward0", "other", (), "f64", 8),
        ("ExpBackward0", "result", (256,), "f32", 1024),
    ]
    assert (held.total, held.shared, held.exclusive) == (1032, 0, 1032)
    assert [(node.tensor_name, node.leaf_shape) for node in held.leaves] == [("x", (256,))]
    assert repr(held) == "GraphMemory(4 nodes, 2 saved tensors, total=1032, shared=0, exclusive=1032)"
    assert str(held).splitlines() == [
        "nodes               4",
        "held for backward   1.0 KiB in 2 saved tensors",
        "by the graph alone  1.0 KiB",
        "by others too       0 B",
    ]
    assert str(held.saved[1]) == "ExpBackward0.result: f32[256], 1.0 KiB, held by the graph alone"
    assert [held.nodes[saved.node_index].name for saved in held.saved] == [saved.node for saved in held.saved]


def test_what_a_variable_holds_is_shared():
    x = torch.ones(256, requires_grad=True)
    h = x.exp()
    held = graph_memory((h * h).sum(), names={"h": h, "x": x})
    assert (held.total, held.shared, held.exclusive) == (1024, 1024, 0)
    assert [node.tensor_name for node in held.nodes] == ["", "", "h", "x"]
    assert [node.shared for node in held.nodes] == [0, 1024, 1024, 0]
    del h


def test_a_storage_that_two_nodes_saved_is_kept_by_the_first_and_repeated_by_the_second():
    x = torch.ones(256, requires_grad=True)
    held = graph_memory(x.exp().sin().sum())
    kept = [(node.label, node.kept, node.repeated) for node in held.nodes]
    assert kept == [("Sum", 0, 0), ("Sin", 1024, 0), ("Exp", 0, 1024), ("AccumulateGrad", 0, 0)]
    assert len({saved.storage for saved in held.saved}) == 1


def test_a_view_counts_its_whole_base():
    x = torch.ones(100, 100, requires_grad=True)
    held = graph_memory((x.exp()[0] * 2).sin().sum())
    saved = next(saved for saved in held.saved if saved.node == "ExpBackward0")
    assert (saved.nbytes, saved.storage_nbytes) == (40000, 40000)
    view = graph_memory((x.detach()[0] * x[0]).sum()).saved[0]
    assert (view.nbytes, view.storage_nbytes, view.exclusive) == (400, 40000, False)


def test_a_leaf_that_only_the_graph_holds_is_listed():
    held = graph_memory(leaf(1000).sum())
    assert [(saved.node, saved.slot, saved.exclusive) for saved in held.saved] == [("AccumulateGrad", "variable", True)]
    assert held.exclusive == 4000


def test_tensors_on_ctx_are_listed_by_their_path():
    loss, _keep = GRAPHS["custom_function"]()
    slots = {saved.slot: saved.nbytes for saved in graph_memory(loss).saved if saved.node == "CubeBackward"}
    assert slots == {"saved_tensors[0]": 2000, "ctx.square": 2000, "ctx.cache['cube'][0]": 2000}


def test_a_checkpoint_shows_its_inputs_and_its_random_state():
    loss, _keep = GRAPHS["checkpoint_of_everything"]()
    held = graph_memory(loss)
    assert sorted(saved.nbytes for saved in held.saved if saved.nbytes) == [
        16 * 32 * 4,  # the input, in the checkpoint
        16 * 32 * 4,  # the same storage, in the leaf's node: no variable holds it any more
        torch.get_rng_state().numel(),
    ]
    assert held.exclusive == held.total


def test_several_losses_count_as_one_graph():
    x = torch.ones(256, requires_grad=True)
    trunk = x.exp()
    first, second = trunk.sin().sum(), trunk.cos().sum()
    del trunk
    one, both = graph_memory(first), graph_memory(first, second)
    assert (one.shared, one.exclusive) == (1024, 0)  # the second loss holds it, too
    assert (both.shared, both.exclusive) == (0, 1024)


def test_after_backward_the_nodes_remain_and_hold_nothing():
    model = perceptron_model()
    loss = model(torch.randn(16, 32)).exp().sum()
    before = graph_memory(loss)
    loss.backward()
    after = graph_memory(loss)
    assert len(after.nodes) == len(before.nodes) and before.total > 0
    assert (after.total, after.saved) == (0, ())
    assert {node.label for node in after.nodes if node.freed} == {"Exp", "Addmm", "Relu"}
    assert str(after).splitlines()[-1].startswith("freed by backward")


def test_a_graph_of_which_a_part_is_freed():
    x = torch.ones(100, requires_grad=True)
    trunk = x.exp()
    first, second = trunk.sin().sum(), trunk.cos().sum()
    del trunk
    first.backward()
    held = graph_memory(second)
    assert [(node.label, node.freed) for node in held.nodes if node.freed] == [("Exp", True)]
    assert held.exclusive == 400


def test_inside_a_transform_the_tensors_inside_are_counted():
    seen = []

    def function(x):
        y = (x * x).sin()
        seen.append(graph_memory(y))
        return y.sum()

    torch.func.grad(function)(torch.randn(4))
    torch.vmap(torch.func.grad(function))(torch.randn(2, 4))
    assert [(held.total, held.shared, held.exclusive) for held in seen] == [(32, 16, 16), (64, 32, 32)]


def test_tensors_without_memory_of_the_usual_kind():
    x = torch.randn(5, requires_grad=True, device="meta")
    loss = x.exp().sum()
    assert graph_memory(loss).exclusive == 20
    sparse = torch.eye(3).to_sparse().requires_grad_()
    loss = torch.sparse.sum(sparse * sparse)
    # Values 3 x 4 and indices 2 x 3 x 8 bytes: both sides of the product are the variable's.
    assert graph_memory(loss).shared == 60


# Manners.


@pytest.mark.parametrize("name", GRAPHS)
def test_reading_keeps_nothing_alive(name):
    def left_over(read):
        with MemoryTracker() as mem:
            loss, keep = GRAPHS[name]()
            if read:
                graph_memory(loss)
            del loss, keep
            return mem.current

    gc.disable()  # a circle is left over either way
    try:
        assert left_over(read=True) == left_over(read=False)
    finally:
        gc.enable()


def test_the_result_holds_no_tensor_and_no_node():
    held = graph_memory(GRAPHS["gated_convolutions"]()[0])
    plain = (int, str, bool, type(None), tuple)
    waiting = [held]
    while waiting:
        thing = waiting.pop()
        if dataclasses.is_dataclass(thing):
            waiting.extend(getattr(thing, field.name) for field in dataclasses.fields(thing))
        else:
            assert type(thing) in plain
            waiting.extend(thing if isinstance(thing, tuple) else ())


@pytest.mark.parametrize("look", [graph_memory, memory_snapshot])
def test_a_checkpointed_forward_is_not_run_again(look):
    calls = []

    def layer(x):
        calls.append(1)
        return x.exp().sin()

    loss = checkpoint(layer, leaf(100), use_reentrant=False).sum()
    look(loss)
    assert len(calls) == 1
    loss.backward()
    assert len(calls) == 2


def test_unpack_hooks_are_not_called():
    unpacked = []
    x = leaf(100)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach(), lambda t: unpacked.append(1) or t):
        loss = (x.sin() * x).sum()
    graph_memory(loss)
    assert not unpacked
    loss.backward()
    assert len(unpacked) == 3


def test_the_in_place_check_stays_on():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    loss = (y * y).sum()
    graph_memory(loss)
    with torch.no_grad():
        y += 1
    graph_memory(loss)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_are_bitwise_equal_with_and_without_reading():
    def gradients(read):
        torch.manual_seed(0)
        model = GatedNet()
        loss = gated_loss(model)
        if read:
            graph_memory(loss)
        loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    for one, other in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(one, other)


def test_a_tracker_sees_nothing_of_the_reading():
    model = perceptron_model()
    with MemoryTracker(model) as mem:
        loss = model(torch.randn(16, 32)).sum()
        events = len(mem.events)
        graph_memory(loss)
        assert len(mem.events) == events


def test_weak_references_that_are_dead_do_no_harm():
    """A module-level cache of weak proxies has tripped scans of all objects before (pytorch_memlab #40)."""
    loss, _keep = GRAPHS["checkpoint_in_the_middle"]()
    tensor = torch.ones(3)
    proxies = [weakref.proxy(tensor)]
    del tensor
    assert graph_memory(loss).exclusive > 0
    assert proxies


# Errors.


@pytest.mark.parametrize(
    ("tensors", "error", "says"),
    [
        ((), ValueError, "called with nothing"),
        ((3.5,), TypeError, "graph_memory was given 3.5."),
        ((nn.Linear(1, 1),), TypeError, "graph_memory was given Linear."),
        (([torch.ones(1)],), TypeError, r"graph_memory\(\*losses\)"),
        ((torch.ones(2),), ValueError, "no graph was recorded"),
        ((torch.ones(2, requires_grad=True),), ValueError, "this one is a leaf"),
        ((torch.ones(2, requires_grad=True).exp().detach(),), ValueError, "detach"),
    ],
)
def test_what_has_no_graph_is_refused_in_words(tensors, error, says):
    with pytest.raises(error, match=says) as caught:
        graph_memory(*tensors)
    assert "Expected: " in str(caught.value)


def test_names_come_from_modules_mappings_and_keywords_and_from_nothing_else():
    w, model = torch.ones(2, requires_grad=True), nn.Linear(2, 1)
    names = list(tensor_names(model, {"w": w, "net": model}, x=w))
    assert names == ["weight", "bias", "w", "net.weight", "net.bias", "x"]
    with pytest.raises(TypeError, match="Names were to be taken from 3"):
        tensor_names(3)
    with pytest.raises(TypeError, match="The name 'w' was given to 3"):
        graph_memory(w.sum(), names={"w": 3})


@pytest.mark.slow
def test_what_gc_freeze_has_put_aside_is_still_found():
    """Servers that fork freeze what they have loaded, so that the collector does not touch it."""
    x, waiting = leaf(3), (number for number in range(3))
    next(waiting)
    gc.freeze()
    try:
        found = living(lambda kind: kind in (torch.Tensor, type(waiting)))
        assert {id(x), id(waiting)} <= set(map(id, found))
    finally:
        gc.unfreeze()


# The last one: it loads the compiler, whose many objects slow down every scan of all objects.
@pytest.mark.slow
def test_compiled_code_shows_what_it_saved():
    pytest.importorskip("torch._dynamo")
    x = torch.ones(100, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler warns about differs from version to version
        loss = torch.compile(lambda tensor: (tensor.exp() * tensor).sum(), backend="aot_eager")(x)
    assert graph_memory(loss).exclusive == 400
    torch._dynamo.reset()

"""The model of CUDA's caching allocator against its rules, and against figures that were measured on a card."""

import itertools
import random

import pytest
import torch

from course_utils.memory import MemoryEvent, MemoryTracker
from course_utils.memory.caching_allocator import CUBLAS_WORKSPACE, caching_allocator_model

MiB = 1 << 20


def events(*deltas):
    """Events from (storage, delta) pairs."""
    return [MemoryEvent(t, "aten::empty", "", delta, 0, storage, "cpu") for t, (storage, delta) in enumerate(deltas)]


def figures(*deltas):
    model = caching_allocator_model(events(*deltas))
    return model.requested, model.allocated, model.reserved


@pytest.mark.parametrize(
    "nbytes, allocated, reserved",
    [
        (1, 512, 2 * MiB),
        (512, 512, 2 * MiB),
        (513, 1024, 2 * MiB),
        (MiB, MiB, 2 * MiB),  # the largest of the small pool
        (MiB + 1, MiB + 512, 20 * MiB),
        (10 * MiB - 512, 10 * MiB - 512, 20 * MiB),
        (10 * MiB, 10 * MiB, 10 * MiB),  # from here a segment of its own, rounded to 2 MiB
        # The remainder is over 1 MiB, and is split off.
        (10 * MiB + 1, 10 * MiB + 512, 12 * MiB),
        (11 * MiB + 1, 12 * MiB, 12 * MiB),  # at most 1 MiB is left: it stays with the block
    ],
)
def test_one_request(nbytes, allocated, reserved):
    assert figures((0, nbytes)) == (nbytes, allocated, reserved)


def test_rounding_is_not_the_whole_rule():
    # Three blocks of 7.5 MiB: two cut from a segment of 20 MiB leave 5 MiB; the third has a segment of its own.
    block = 4 * 480 * 1024 * 4
    assert figures(*((i, block) for i in range(3))) == (3 * block, 3 * block, 40 * MiB)
    # 19.5 MiB of 20 are taken in one piece of 9.75 and one of 9.75 MiB: the rest stays with the second.
    half = 9 * MiB + 3 * MiB // 4
    assert figures((0, half), (1, half)) == (2 * half, 20 * MiB, 20 * MiB)


def test_small_and_large_requests_have_pools_of_their_own():
    assert figures((0, 2 * MiB), (0, -2 * MiB), (1, 512)) == (512, 512, 22 * MiB)


def test_freed_memory_is_reserved_and_used_again():
    assert figures((0, 4 * MiB), (0, -4 * MiB)) == (0, 0, 20 * MiB)
    assert figures((0, 4 * MiB), (0, -4 * MiB), (1, 3 * MiB)) == (3 * MiB, 3 * MiB, 20 * MiB)


def test_neighbours_join_when_freed():
    taken = [(0, 4 * MiB), (1, 4 * MiB), (2, 4 * MiB), (3, 4 * MiB), (4, 4 * MiB)]
    # 0 and 2 are free and 1 between them is not: 8 MiB do not fit although 8 are free.
    assert figures(*taken, (0, -4 * MiB), (2, -4 * MiB), (5, 8 * MiB))[2] == 40 * MiB
    assert figures(*taken, (0, -4 * MiB), (2, -4 * MiB), (1, -4 * MiB), (5, 8 * MiB))[2] == 20 * MiB


def test_best_fit_takes_the_smallest_free_stretch():
    taken = [(0, 6 * MiB), (1, 2 * MiB), (2, 3 * MiB), (3, 9 * MiB), (0, -6 * MiB), (2, -3 * MiB)]
    # 3 MiB go into the gap of 3 and leave that of 6 whole for the next one.
    model = caching_allocator_model(events(*taken, (4, 3 * MiB), (5, 6 * MiB)))
    assert model.reserved == 20 * MiB
    assert model.largest_free == 0


def test_growing_takes_the_new_memory_before_it_gives_the_old_back():
    model = caching_allocator_model(events((0, 4 * MiB), (0, 4 * MiB)))
    assert (model.requested, model.peak_requested) == (8 * MiB, 12 * MiB)


def test_memory_older_than_the_events_is_ignored():
    assert figures((0, -4 * MiB), (1, 512)) == (512, 512, 2 * MiB)


def test_no_events():
    model = caching_allocator_model([])
    assert (model.requested, model.reserved, model.fragmentation, model.largest_free) == (0, 0, 0.0, 0)


def test_pieces_tile_their_segments_in_a_random_run():
    draw = random.Random(0)
    alive, deltas = {}, []
    for storage in range(2000):
        if alive and draw.random() < 0.5:
            gone = draw.choice(list(alive))
            deltas.append((gone, -alive.pop(gone)))
        alive[storage] = draw.choice([1, 700, 4096, MiB, MiB + 1, 3 * MiB, 12 * MiB + 5])
        deltas.append((storage, alive[storage]))
    model = caching_allocator_model(events(*deltas))
    assert model.requested == sum(alive.values())
    for segment in model.segments:
        pieces = segment.pieces
        assert [p.address for p in pieces] == [
            segment.address + sum(q.size for q in pieces[:i]) for i in range(len(pieces))
        ]
        assert sum(p.size for p in pieces) == segment.size
        assert not any(a.owner is None and b.owner is None for a, b in itertools.pairwise(pieces))
    assert {p.owner: p.requested for s in model.segments for p in s.pieces if p.owner is not None} == alive
    assert model.allocated == sum(p.size for s in model.segments for p in s.pieces if p.owner is not None)
    assert max(model.allocated_after) <= model.peak_allocated <= model.reserved_after[-1]


def test_eight_figures_measured_on_a_card():
    """memory_allocated() and max_memory_allocated() in KiB, left as comments in a public training script.

    https://github.com/00drdelius/CustomLOMO, test.py; card and PyTorch version are not stated there. One workspace a
    thread (forward, backward) is the one rule that was chosen after seeing the figures.
    """
    found = []

    def allocated():
        found.append(caching_allocator_model(mem.events).allocated)

    with MemoryTracker() as mem:
        first = torch.nn.Linear(1024, 1024, bias=False)
        allocated()
        second = torch.nn.Linear(1024, 1, bias=False)
        allocated()
        inputs = torch.randn(1024, 1024)
        allocated()
        y = first(inputs)
        allocated()
        u = second(y)
        allocated()
        loss = u.sum()
        allocated()
        loss.backward()
        allocated()
    peak = caching_allocator_model(mem.events).peak_allocated
    assert found == [4194304, 4198400, 8392704, 21106688, 21110784, 21111296, 33829376]
    assert peak == 38024192


def test_workspaces_can_be_left_out():
    with MemoryTracker() as mem:
        product = torch.ones(10, 10) @ torch.ones(10, 10)
    assert caching_allocator_model(mem.events, workspace_bytes=0).requested == mem.current == 400
    assert caching_allocator_model(mem.events).workspaces == CUBLAS_WORKSPACE
    del product


def test_text_names_every_figure():
    assert str(caching_allocator_model(events((0, 700), (1, 3 * MiB)))).splitlines() == [
        "requested            3.0 MiB",
        "allocated            3.0 MiB, peak 3.0 MiB",
        "reserved             22.0 MiB in 2 segments",
        "of it free           largest stretch 17.0 MiB",
        "not used by tensors  86% of what is reserved",
    ]

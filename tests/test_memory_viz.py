"""A tracked run goes through PyTorch's own reader of memory snapshots and comes back whole."""

import pickle
import re

import torch
from torch.cuda import _memory_viz

from course_utils.memory import MemoryEvent, MemoryTracker
from course_utils.memory.viz import memory_viz_snapshot
from tests.memory_workloads import mlp_data, mlp_model


def run(tmp_path):
    model, (x, y) = mlp_model("cpu"), mlp_data("cpu")
    with MemoryTracker(model, x, y) as mem:
        with mem.phase("forward"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        with mem.phase("backward"):
            loss.backward()
    mem.to_memory_viz(tmp_path / "run.pickle")
    return mem, pickle.loads((tmp_path / "run.pickle").read_bytes())


def test_bytes_alive_come_back_event_by_event(tmp_path):
    mem, snapshot = run(tmp_path)
    alive, current = {}, []
    for entry in snapshot["device_traces"][0]:
        if entry["action"] == "alloc":
            assert entry["addr"] not in alive
            alive[entry["addr"]] = entry["size"]
            current.append(sum(alive.values()))
        elif entry["action"] == "free_completed":
            assert alive.pop(entry["addr"]) == entry["size"]
            current.append(sum(alive.values()))
    assert current == [event.current for event in mem.events]
    # The viewer looks each block up in a segment.
    trace = snapshot["device_traces"][0]
    segments = [range(e["addr"], e["addr"] + e["size"]) for e in trace if e["action"] == "segment_alloc"]
    assert all(any(e["addr"] in segment for segment in segments) for e in trace)
    assert [(s["address"], s["total_size"]) for s in snapshot["segments"]] == [(s.start, len(s)) for s in segments]
    # What the segments say is in use at the end is what the trace left alive.
    used = {
        block["address"]: block["requested_size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    assert used == alive


def test_torch_reads_it(tmp_path):
    mem, snapshot = run(tmp_path)
    assert f"segments: {len(snapshot['segments'])}" in _memory_viz.segsum(snapshot)
    listing = _memory_viz.trace(snapshot)
    assert listing.count("cudaMalloc(") == len(snapshot["segments"])
    assert len(re.findall(r"^\w+ = \w+\[\d+:", listing, re.MULTILINE)) == sum(event.delta > 0 for event in mem.events)
    assert "MemoryViz" in _memory_viz.trace_plot(snapshot)
    assert "MemoryViz" in _memory_viz.segment_plot(snapshot)


def test_frames_are_operation_and_phase(tmp_path):
    _, snapshot = run(tmp_path)
    names = {tuple(frame["name"] for frame in entry["frames"]) for entry in snapshot["device_traces"][0]}
    assert ("aten::addmm", "forward") in names
    assert ("aten::mm", "backward") in names


def test_storage_that_grows_is_taken_anew_and_then_freed():
    snapshot = memory_viz_snapshot(
        [MemoryEvent(0, "aten::empty", "", 100, 100, 0, "cpu"), MemoryEvent(1, "aten::resize_", "", 50, 150, 0, "cpu")]
    )
    assert [(entry["action"], entry["size"]) for entry in snapshot["device_traces"][0]] == [
        ("segment_alloc", 2 << 20),
        ("alloc", 100),
        ("alloc", 150),
        ("free_requested", 100),
        ("free_completed", 100),
    ]

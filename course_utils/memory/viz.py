"""Writes a tracked run in the format of PyTorch's memory viewer (``to_memory_viz``), from any device.

The file opens at https://pytorch.org/memory_viz and in ``torch.cuda._memory_viz``, as those do that
``torch.cuda.memory._dump_snapshot`` writes.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from course_utils.memory.caching_allocator import Replay, Segment
from course_utils.memory.records import MemoryEvent


def memory_viz_snapshot(events: Sequence[MemoryEvent]) -> dict[str, Any]:
    """The events as a snapshot of PyTorch's memory viewer: a trace of actions, and the segments at the end.

    Args:
        events: ``mem.events``; storages and their bytes.

    Returns:
        A dict as ``torch.cuda.memory._snapshot`` returns it. Addresses and segments are those that the caching
        allocator would have chosen (``caching_allocator``); a "frame" is the operation, under its phase.
    """
    replay = Replay(workspace_bytes=0)
    trace = [entry for event in events for entry in _entries(event, replay)]
    return {
        "segments": [_segment(segment) for segment in replay.segments],
        "device_traces": [trace],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.0,
            "expandable_segments": False,
            "pinned_num_register_threads": 1,
            "release_lock_on_cudamalloc": False,
            "pinned_use_cuda_host_register": False,
            "roundup_power2_divisions": {},
        },
        "external_annotations": [],
    }


def to_memory_viz(events: Sequence[MemoryEvent], path: str | os.PathLike[str]) -> None:
    """Writes ``memory_viz_snapshot`` to a file: drag it onto https://pytorch.org/memory_viz.

    The page reads it in the browser; nothing is uploaded.

    Args:
        events: ``mem.events``.
        path: the file to write, such as ``run.pickle``; replaced if it exists.
    """
    with open(path, "wb") as file:
        pickle.dump(memory_viz_snapshot(events), file)


def _entries(event: MemoryEvent, replay: Replay) -> Iterator[dict[str, Any]]:
    """What the allocator would have logged for one event."""
    segments = len(replay.segments)
    new, gone = replay.take(event)
    actions = [("segment_alloc", segment.address, segment.size) for segment in replay.segments[segments:]]
    if new is not None:
        actions.append(("alloc", new.address, new.requested))
    if gone is not None:
        actions += [(action, gone.address, gone.requested) for action in ("free_requested", "free_completed")]
    for action, address, size in actions:
        yield {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": event.time_ns // 1000,
            "compile_context": "N/A",
            "user_metadata": event.phase,
            "frames": _frames(event.op, event.phase),
        }


def _segment(segment: Segment) -> dict[str, Any]:
    used = [piece for piece in segment.pieces if piece.owner is not None]
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": sum(piece.size for piece in used),
        "active_size": sum(piece.size for piece in used),
        "requested_size": sum(piece.requested for piece in used),
        "stream": 0,
        "segment_type": "small" if segment.small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": piece.address,
                "size": piece.size,
                "requested_size": piece.requested,
                "state": "inactive" if piece.owner is None else "active_allocated",
                "frames": [] if piece.owner is None else _frames(piece.op, ""),
            }
            for piece in segment.pieces
        ],
    }


def _frames(op: str, phase: str) -> list[dict[str, Any]]:
    frames = [{"name": op, "filename": "operation", "line": 0}]
    return [*frames, {"name": phase, "filename": "phase", "line": 0}] if phase else frames

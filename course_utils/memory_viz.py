"""Writes a tracked run in the format of PyTorch's memory viewer (``to_memory_viz``), from any device.

The file opens at https://pytorch.org/memory_viz and in ``torch.cuda._memory_viz``, as those do that
``torch.cuda.memory._dump_snapshot`` writes. Imports ``caching_allocator`` and ``memory_records``.
"""

import os
import pickle
from collections.abc import Sequence
from typing import Any

from course_utils.caching_allocator import CachingAllocatorModel, caching_allocator_model
from course_utils.memory_records import MemoryEvent


def memory_viz_snapshot(events: Sequence[MemoryEvent]) -> dict[str, Any]:
    """The events as a snapshot of PyTorch's memory viewer: a trace of actions, and the segments at the end.

    Args:
        events: ``mem.events``; storages and their bytes.

    Returns:
        A dict as ``torch.cuda.memory._snapshot`` returns it. Addresses and segments are those that the caching
        allocator would have chosen (``caching_allocator_model``); a "frame" is the operation, under its phase.
    """
    model = caching_allocator_model(events, workspace_bytes=0)
    return {
        "segments": _segments(model),
        "device_traces": [_trace(events)],
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


def _trace(events: Sequence[MemoryEvent]) -> list[dict[str, Any]]:
    """One entry an event; a storage that grows is freed and taken again, as the allocator would."""
    trace: list[dict[str, Any]] = []
    place = _Places()
    for event in events:
        for action, address, size in place.actions(event):
            trace.append(
                {
                    "action": action,
                    "addr": address,
                    "size": size,
                    "stream": 0,
                    "time_us": event.time_ns // 1000,
                    "compile_context": "N/A",
                    "user_metadata": event.phase,
                    "frames": _frames(event.op, event.phase),
                }
            )
    return trace


class _Places:
    """Addresses for the trace: each storage has its own for life, on no other's bytes at the same moment."""

    def __init__(self) -> None:
        self._next = 1 << 40
        self._held: dict[int, tuple[int, int]] = {}

    def actions(self, event: MemoryEvent) -> list[tuple[str, int, int]]:
        actions = []
        address, size = self._held.pop(event.storage, (0, 0))
        if size:
            actions += [("free_requested", address, size), ("free_completed", address, size)]
        size += event.delta
        if size > 0:
            address, self._next = self._next, self._next + -(-size // 512) * 512
            self._held[event.storage] = address, size
            actions.append(("alloc", address, size))
        return actions


def _segments(model: CachingAllocatorModel) -> list[dict[str, Any]]:
    segments = []
    for segment in model.segments:
        used = [piece for piece in segment.pieces if piece.owner is not None]
        segments.append(
            {
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
        )
    return segments


def _frames(op: str, phase: str) -> list[dict[str, Any]]:
    frames = [{"name": op, "filename": "operation", "line": 0}]
    return frames + [{"name": phase, "filename": "phase", "line": 0}] if phase else frames

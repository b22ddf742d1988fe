"""What the lessons run on (``environment``)."""

import platform
from dataclasses import dataclass

import torch

from course_utils.base import versions
from course_utils.base.text import aligned, format_bytes


@dataclass(frozen=True, repr=False)
class Environment:
    """The versions and the device that a lesson meets.

    Attributes:
        python: version of Python.
        torch: version of PyTorch, with its build.
        device: where the experiments run: ``cuda`` or ``cpu``.
        device_name: the GPU's name, or the processor's.
        device_bytes: the GPU's memory in bytes; None on the CPU.
        threads: how many threads an operation of PyTorch may use on the CPU.
        note: that the course was not tried on this PyTorch, where it is a newer one; else empty.
    """

    python: str
    torch: str
    device: str
    device_name: str
    device_bytes: int | None
    threads: int
    note: str = ""

    def __repr__(self) -> str:
        memory = f", {format_bytes(self.device_bytes)}" if self.device_bytes else ""
        return aligned(
            [
                ("Python", self.python),
                ("PyTorch", self.torch),
                ("device", f"{self.device} ({self.device_name}{memory})"),
                ("threads", str(self.threads)),
                *([("note", self.note)] if self.note else []),
            ]
        )


def environment() -> Environment:
    """What this machine runs the lessons on: versions of Python and PyTorch, device, memory, threads.

    Returns:
        Plain data, read now; prints as four lines, and a fifth where PyTorch is newer than the course. With CUDA it is
        device 0, and ``device_bytes`` is all its memory.
    """
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        device, name, nbytes = "cuda", properties.name, properties.total_memory
    else:
        device, name, nbytes = "cpu", platform.machine(), None
    threads = torch.get_num_threads()
    return Environment(platform.python_version(), torch.__version__, device, name, nbytes, threads, versions.note())

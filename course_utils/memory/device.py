"""Which device's bytes are meant (``device_name``)."""

import torch

from course_utils.base.errors import explain
from course_utils.base.text import describe
from course_utils.memory.known import Known


def device_name(device: torch.device | str | None, known: Known) -> str:
    """The name of a device with its number, as tensors on it carry it: ``cpu``, ``cuda:0``, ``mps:0``, ``meta``.

    Args:
        device: a device; None for that of the first known tensor, else PyTorch's default device.
        known: the objects that the caller was given.

    Raises:
        ValueError: there is no such device.
    """
    if device is None:
        first = next(known.everything(), None)
        chosen = first.device if first is not None else torch.get_default_device()
    else:
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                explain(f"The device {describe(device)} was asked for.", "a device, such as cpu, cuda:0, mps or meta.")
            ) from error
    if chosen.index is None and chosen.type == "cuda" and torch.cuda.is_available():
        chosen = torch.device("cuda", torch.cuda.current_device())
    elif chosen.index is None and chosen.type not in ("cpu", "meta"):
        chosen = torch.device(chosen.type, 0)
    return str(chosen)

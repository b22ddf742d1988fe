"""Refuses a PyTorch that is too old, in one sentence."""

import torch

OLDEST = (2, 13)  # the oldest that the whole suite passes on


def _check(version: str) -> None:
    found = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if found < OLDEST:
        raise ImportError(
            f"This course needs PyTorch {OLDEST[0]}.{OLDEST[1]} or newer, and found {version}. "
            "Set the course up as its README says, or run: pip install --upgrade torch"
        )


_check(torch.__version__)

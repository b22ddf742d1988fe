"""What claims of several lessons look at: training flags, values, and what goes wrong in the middle of a call."""

import torch
from torch import Tensor, nn

from course_utils.checks.trial import Missed


class Unlucky(Exception):
    """What a batch, a block or a model raises in a check."""


class Turn(nn.Module):
    """Tells the modes apart without a random number: in training mode the columns are turned by one place."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns ``x`` itself in eval mode, and a copy with its last dimension turned in training mode."""
        return x.roll(1, dims=-1) if self.training else x


def same(got: Tensor, expected: Tensor) -> bool:
    """Whether shapes agree, and values up to float32's precision; NaN equals NaN, and dtypes may differ.

    1e-5 of the value and 1e-6 beside it, because an answer may go through float32 on its way.
    """
    if got.shape != expected.shape:
        return False
    return torch.allclose(got.detach().double(), expected.detach().double(), rtol=1e-5, atol=1e-6, equal_nan=True)


def training_flags(model: nn.Module) -> list[bool]:
    """The flags of the model and all its submodules, in the order of ``modules()``."""
    return [module.training for module in model.modules()]


def expect_training_flags(model: nn.Module, before: list[bool], key: str = "") -> None:
    """The model's training flags are those of before.

    Args:
        model: what the answer was given.
        before: its ``training_flags`` before the call.
        key: the misconception to name; without one, ``"left in eval"`` or ``"one flag"``, as the flags say.

    Raises:
        Missed: they are not.
    """
    after = training_flags(model)
    if after != before:
        key = key or ("left in eval" if not any(after) else "one flag")
        raise Missed(key, expected=f"training flags {flag_words(before)}", got=flag_words(after))


def flag_words(flags: list[bool]) -> str:
    """Training flags in words: ``"train eval"``."""
    return " ".join("train" if flag else "eval" for flag in flags)

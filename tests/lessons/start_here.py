"""Right and wrong answers to the exercise of lesson 00."""

import torch

from tests.lessons.answers import Right

RIGHT = (
    Right("double", "a 0-dim factor in the dtype of x", lambda x: x * torch.tensor(2.0, dtype=x.dtype)),
    Right("double", "sum", lambda x: x + x),
    Right("double", "torch.mul", lambda x: torch.mul(x, 2)),
    Right("double", "a clone, edited in place", lambda x: x.clone().mul_(2)),
)

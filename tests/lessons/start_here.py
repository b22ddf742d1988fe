"""Right and wrong answers to the exercise of lesson 00."""

import torch

from tests.lessons.answers import Right, Wrong


def doubled_in_place(x):
    x *= 2
    return x


RIGHT = (
    Right("double", "a 0-dim factor", lambda x: x * torch.tensor(2.0, dtype=torch.float64)),
    Right("double", "sum", lambda x: x + x),
    Right("double", "torch.mul", lambda x: torch.mul(x, 2)),
)

WRONG = (
    Wrong("double", "square", lambda x: x**2),
    Wrong("double", "in place", doubled_in_place),
    Wrong("double", "cut", lambda x: x.detach() * 2),
    Wrong("double", "half cut", lambda x: x + x.detach()),
    Wrong("double", "printed", lambda x: print(2 * x)),
    Wrong("double", "one element", lambda x: x * torch.tensor([2.0], dtype=torch.float64)),
    Wrong("double", "one element", lambda x: x * torch.tensor([2.0]), "a factor of one element"),
)

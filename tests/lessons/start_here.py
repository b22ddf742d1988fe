"""Right and wrong answers to the exercise of lesson 00."""

import torch

from tests.lessons.answers import Right, Wrong


def doubled_in_place(x):
    x *= 2
    return x


def doubled_under_another_name(x):
    result = x
    with torch.no_grad():
        result += x
    return result


@torch.no_grad()
def doubled_under_no_grad(x):
    return x.mul_(2)


def doubled_reflagged(x):
    result = x.detach().clone()
    result *= 2
    result.requires_grad_(x.requires_grad)
    return result


RIGHT = (
    Right("double", "a 0-dim factor in the dtype of x", lambda x: x * torch.tensor(2.0, dtype=x.dtype)),
    Right("double", "sum", lambda x: x + x),
    Right("double", "torch.mul", lambda x: torch.mul(x, 2)),
)

WRONG = (
    Wrong("double", "square", lambda x: x**2),
    Wrong("double", "in place", doubled_in_place),
    Wrong("double", "in place", doubled_under_another_name, "in place, under another name"),
    Wrong("double", "in place", doubled_under_no_grad, "in place, decorated"),
    Wrong("double", "reflagged", doubled_reflagged),
    Wrong("double", "promoted", lambda x: x * torch.tensor(2.0)),
    Wrong("double", "promoted", lambda x: x * torch.tensor(2.0, dtype=torch.float64), "a float64 factor"),
    Wrong("double", "cut", lambda x: x.detach() * 2),
    Wrong("double", "half cut", lambda x: x + x.detach()),
    Wrong("double", "printed", lambda x: print(2 * x)),
    Wrong("double", "one element", lambda x: x * torch.tensor([2.0], dtype=torch.float64)),
    Wrong("double", "one element", lambda x: x * torch.tensor([2.0]), "a factor of one element"),
)

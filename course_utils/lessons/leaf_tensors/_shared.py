"""What several exercises of lesson 02, leaf_tensors, look at: whether a weight is a flagged leaf."""

from torch import Tensor

from course_utils.checks.claims import expect


def expect_flagged_leaf(weight: Tensor, result: str, unflagged: str, name: str = "") -> None:
    """The tensor is a leaf (else it shows the misconception ``result``) that requires grad (else ``unflagged``)."""
    name = f"{name}." if name else ""
    made_by = weight.grad_fn.name() if weight.grad_fn else "nothing"
    expect(weight.is_leaf, result, expected=f"{name}is_leaf True", got=f"{name}is_leaf False, made by {made_by}")
    expect(weight.requires_grad, unflagged, expected=f"{name}requires_grad True", got=f"{name}requires_grad False")

"""The network of lesson 06: two convolutional branches, of which a gate closes one (``TwoBranchNet``)."""

import torch
from torch import Tensor, nn

from course_utils.base.errors import explain

CLOSE = ("multiply", "no_grad", "skip")
CLASSES = 10


class TwoBranchNet(nn.Module):
    """Classifies images of shape (batch, 3, 32, 32) by the joined features of two branches; a gate closes one of them.

    The first half of the features is always branch a's, the second half branch b's. The closed one's half is zeros.

    Args:
        channels: of the first and of the second convolution of each branch.

    Attributes:
        branch_a: (batch, 3, 32, 32) to (batch, channels[1], 4, 4).
        branch_b: the same, with weights of its own.
        head: joined features to logits of ten classes.
    """

    def __init__(self, channels: tuple[int, int] = (12, 24)) -> None:
        super().__init__()
        self.branch_a = _branch(*channels)
        self.branch_b = _branch(*channels)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2 * channels[1] * 4 * 4, CLASSES))

    def forward(self, images: Tensor, use_a: bool, close: str = "skip") -> Tensor:
        """The logits, shape (batch, 10).

        Args:
            images: shape (batch, 3, 32, 32).
            use_a: True closes branch b, False closes branch a.
            close: how. ``"multiply"`` runs both and multiplies the closed one's output by 0; ``"no_grad"`` does so too,
                with the closed one's forward pass under ``no_grad``; ``"skip"`` does not run it.

        Raises:
            ValueError: ``close`` is none of the three.
        """
        if close == "multiply":
            halves = self.branch_a(images) * use_a, self.branch_b(images) * (not use_a)
        elif close == "no_grad":
            recording = torch.is_grad_enabled()
            with torch.set_grad_enabled(recording and use_a):
                a = self.branch_a(images)
            with torch.set_grad_enabled(recording and not use_a):
                b = self.branch_b(images)
            halves = a * use_a, b * (not use_a)
        elif close == "skip":
            opened = self.branch_a(images) if use_a else self.branch_b(images)
            closed = torch.zeros_like(opened)
            halves = (opened, closed) if use_a else (closed, opened)
        else:
            raise ValueError(explain(f"TwoBranchNet was called with close={close!r}.", "one of " + ", ".join(CLOSE)))
        return self.head(torch.cat(halves, dim=1))


def _branch(first: int, second: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, first, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )

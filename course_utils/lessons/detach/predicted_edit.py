"""``predicted_edit``: what becomes of the gradient when a result is edited in place after the loss."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils.checks.compare import Trial, predict

_EDITS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach_edit": lambda y: y.detach(),
    "data_edit": lambda y: y.data,
    "clone_edit": lambda y: y.clone(),
    "detach_clone_edit": lambda y: y.detach().clone(),
}


def _edit_outcomes(trial: Trial) -> dict[str, str]:
    outcomes = {}
    for key, take in _EDITS.items():
        x = trial.randn(3, requires_grad=True)
        y = x.exp()
        loss = y.sum()
        take(y).mul_(5)
        try:
            loss.backward()
        except RuntimeError:
            outcomes[key] = "error"
        else:
            right = torch.allclose(x.grad, x.detach().exp())
            outcomes[key] = "right gradient" if right else "wrong gradient"
    return outcomes


predicted_edit = predict(__file__, _edit_outcomes)

"""``predicted_leaves``: say which tensors are leaves. The check makes them and asks each."""

import torch
from torch import nn

from course_utils.checks.compare import Trial, predict


def _leaves(trial: Trial) -> dict[str, bool]:
    plain, flagged = torch.ones(3), torch.ones(3, requires_grad=True)
    computed = flagged * 2
    with torch.no_grad():
        under_no_grad = flagged * 2
    tensors = {
        "plain": plain,
        "flagged": flagged,
        "computed": computed,
        "detached": computed.detach(),
        "cast": flagged.to(torch.float64),
        "parameter": nn.Parameter(torch.ones(3)),
        "under_no_grad": under_no_grad,
        "view": flagged[:1],
    }
    return {name: tensor.is_leaf for name, tensor in tensors.items()}


predicted_leaves = predict(__file__, _leaves)

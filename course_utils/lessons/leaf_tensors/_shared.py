"""What several exercises of lesson 02, leaf_tensors, look at."""

from torch import Tensor


def _first(tensor: Tensor) -> str:
    return f"{tensor.detach().flatten()[0].item():.6g}"

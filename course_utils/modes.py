"""Eval mode for the length of a block (``evaluating``)."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Within the block the model is in eval mode; after it every module has its own training flag again.

    Also after an error, which goes on to the caller. Grad mode is another switch, and stays as it is.

    Args:
        model: a module with all its submodules, some of which may have been in eval mode before.

    Returns:
        A context manager that gives the model.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3).eval())
        >>> with evaluating(model):
        ...     model[0].training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, flag in flags.items():
            module.training = flag

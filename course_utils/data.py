"""Data that needs no download, and the histogram of lesson 09 (``handwritten_digits``, ``soft_histogram``)."""

import importlib.util
import os

import numpy
import torch
from torch import Tensor

_DIGITS = os.path.join("datasets", "data", "digits.csv.gz")  # below scikit-learn's own folder


def handwritten_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The 1797 handwritten digits that ship inside scikit-learn, in a fixed order.

    Returns:
        (train images, train labels, test images, test labels), new tensors on the CPU with each call; a quarter of
        each class is kept for testing. Images: float32, shape (count, 1, 8, 8), values 0 to 1 in steps of 1/16.
        Labels: int64, shape (count,), 0 to 9.

    Source:
        https://scikit-learn.org/stable/modules/generated/sklearn.datasets.load_digits.html
    """
    rows = torch.from_numpy(_digits())
    images, labels = rows[:, :64].div(16).float().view(-1, 1, 8, 8), rows[:, 64].long()
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        of_it = (labels == digit).nonzero().squeeze(1)
        test[of_it[: round(len(of_it) / 4)]] = True
    return images[~test], labels[~test], images[test], labels[test]


def _digits() -> numpy.ndarray:
    """One digit a row: 64 pixels from 0 to 16 and the class, float64, shape (1797, 65)."""
    found = importlib.util.find_spec("sklearn")  # imports nothing
    path = os.path.join(os.path.dirname(found.origin), _DIGITS) if found and found.origin else ""
    if os.path.exists(path):
        return numpy.loadtxt(path, delimiter=",")
    # Another release may keep them elsewhere. Not at once, because importing this takes most of a second.
    from sklearn.datasets import load_digits

    digits = load_digits()
    return numpy.column_stack([digits.data, digits.target])


def soft_histogram(values: Tensor, bins: Tensor) -> Tensor:
    """Counts of values near each bin centre, differentiable with respect to the values.

    A value adds exp(-((value - centre) / width)² / 2) to each bin, where width is the mean distance of neighbouring
    centres. The counts are not normalised, so the histogram of two batches is the sum of theirs.

    Args:
        values: floating point, any shape; flattened.
        bins: bin centres, 1-D, at least two, increasing, same device as the values; taken in the values' dtype.

    Returns:
        A new tensor of the shape of ``bins`` and the dtype of ``values``, with a history where ``values`` have one.

    Raises:
        ValueError: ``bins`` is not 1-D or has fewer than two centres.
    """
    if bins.dim() != 1 or len(bins) < 2:
        raise ValueError(f"bins has shape {tuple(bins.shape)}. Expected: a 1-D tensor of at least two bin centres.")
    width = (bins[-1] - bins[0]) / (len(bins) - 1)
    distance = (values.reshape(-1, 1) - bins.to(values.dtype)) / width
    return (-distance.square() / 2).exp().sum(0)

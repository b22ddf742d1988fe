import math

import pytest
import torch

from course_utils import data, handwritten_digits, soft_histogram


def test_digits_are_split_evenly_without_overlap_and_always_the_same():
    train, train_labels, test, test_labels = handwritten_digits()
    assert train.shape[1:] == test.shape[1:] == (1, 8, 8) and len(train) + len(test) == 1797
    assert train.min() == 0 and train.max() == 1 and train.dtype == torch.float32
    share = torch.bincount(test_labels) / torch.bincount(torch.cat([train_labels, test_labels]))
    assert (share - 0.25).abs().max() < 0.01
    again = handwritten_digits()
    assert all(torch.equal(a, b) for a, b in zip((train, train_labels, test, test_labels), again, strict=True))


@pytest.mark.slow
def test_the_digits_are_those_that_scikit_learn_gives(monkeypatch):
    mine = handwritten_digits()
    monkeypatch.setattr(data, "_DIGITS", "moved in some later release")
    assert all(torch.equal(a, b) for a, b in zip(mine, handwritten_digits(), strict=True))


def test_a_value_on_a_centre_counts_one_there():
    bins = torch.linspace(0, 4, 5, dtype=torch.float64)
    counts = soft_histogram(torch.tensor([2.0], dtype=torch.float64), bins)
    assert counts[2] == 1 and counts[0] == pytest.approx(math.exp(-2))


def test_counts_of_batches_add_up_and_are_differentiable():
    values, bins = torch.randn(3, 7, dtype=torch.float64), torch.linspace(-2, 2, 9, dtype=torch.float64)
    whole = soft_histogram(values, bins)
    assert whole.shape == bins.shape
    assert torch.allclose(whole, soft_histogram(values[:1], bins) + soft_histogram(values[1:], bins))
    assert torch.autograd.gradcheck(lambda v: soft_histogram(v, bins), values.requires_grad_())


@pytest.mark.parametrize("shape", [(1,), (2, 2), ()])
def test_bins_that_are_no_list_of_centres_are_refused(shape):
    bins = torch.ones(shape)
    with pytest.raises(ValueError, match="bin centres"):
        soft_histogram(torch.ones(3), bins)

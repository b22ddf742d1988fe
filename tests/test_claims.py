import pytest
import torch
from torch import nn

from course_utils.checks.claims import Turn, expect_training_flags, flag_words, same, training_flags
from course_utils.checks.missed import Missed


def test_the_same_values_may_have_gone_through_float32():
    exact = torch.linspace(0.1, 1, 7, dtype=torch.float64)
    assert same(exact.float(), exact)
    assert same(torch.tensor([torch.nan, torch.inf]), torch.tensor([torch.nan, torch.inf]))


@pytest.mark.parametrize(
    "got",
    [
        torch.ones(3) * 1.0001,
        torch.ones(1),  # would be broadcast
        torch.ones(1, 3),
        torch.tensor([1, 1, torch.nan]),
    ],
)
def test_other_values_and_other_shapes_are_not_the_same(got):
    assert not same(got, torch.ones(3))


def test_a_turn_shows_the_mode_it_ran_in():
    x = torch.arange(3.0)
    assert Turn().eval()(x) is x
    assert Turn().train()(x).tolist() == [2, 0, 1]


def test_training_flags_are_those_of_before():
    model = nn.Sequential(nn.Dropout(), nn.ReLU().eval())
    before = training_flags(model)
    assert flag_words(before) == "train train eval"
    expect_training_flags(model, before)


@pytest.mark.parametrize(
    ("mode", "one", "named"),
    [(False, "one", "all off"), (True, "one", "one"), (True, "", "all off")],
)
def test_other_training_flags_are_a_miss(mode, one, named):
    model = nn.Sequential(nn.Dropout(), nn.ReLU().eval())
    before = training_flags(model)
    with pytest.raises(Missed) as missed:
        expect_training_flags(model.train(mode), before, "all off", one)
    assert missed.value.misconception == named
    assert missed.value.details[0] == ("expected", "training flags train train eval")

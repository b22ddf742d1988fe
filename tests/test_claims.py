import operator
import sys
import threading

import pytest
import torch
from torch import nn

from course_utils.checks.claims import (
    AnswerRaised,
    Calls,
    Lazy,
    ModeRoll,
    Page,
    Raises,
    Unlucky,
    expect,
    expect_hooks,
    expect_no_history,
    expect_raises,
    expect_same,
    expect_training_flags,
    first_difference,
    flag_words,
    gradient,
    reading,
    same,
    training_flags,
    unlucky,
)
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
    assert ModeRoll().eval()(x) is x
    assert ModeRoll().train()(x).tolist() == [2, 0, 1]


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
    told = ("1: eval", "1: train") if mode else ("the model: train, 0: train", "the model: eval, 0: eval")
    assert missed.value.details == (("expected", f"training flags as before, {told[0]}"), ("got", told[1]))


def missed(call):
    with pytest.raises(Missed) as found:
        call()
    return found.value.misconception, dict(found.value.details)


def test_what_is_expected_holds_or_is_missed():
    expect(True, "key", expected="this", got=Lazy(lambda: 1 / 0))
    assert missed(lambda: expect(False, "key", expected="this", got=Lazy(lambda: "that"))) == (
        "key",
        {"expected": "this", "got": "that"},
    )


def test_a_value_of_the_answer_s_is_shown_and_never_called():
    called = []
    _, details = missed(lambda: expect(False, expected="a number", got=lambda: called.append(1)))
    assert called == [] and "lambda" in details["got"]


def test_the_value_of_a_known_mistake_names_it():
    right = torch.tensor([1.0, 2.0, 3.0])
    expect_same(right + 1e-7, right, {"doubled": 2 * right})
    assert missed(lambda: expect_same(2 * right, right, {"doubled": 2 * right})) == (
        "doubled",
        {"expected": "1 at [0]", "got": "2 at [0]"},
    )
    assert missed(lambda: expect_same(right + 1, right, [("doubled", 2 * right)], key="else"))[0] == "else"
    assert missed(lambda: expect_same(right[:2], right, what="the sum"))[1]["expected"] == "the sum"
    assert reading(3, [("a", 1), ("a", 3)], operator.eq) == "a" and reading(2, {"a": 1}, operator.eq) == ""


def test_numbers_that_would_read_alike_are_shown_to_the_digit_that_differs():
    right = torch.tensor(1.0, dtype=torch.float64)
    _, details = missed(lambda: expect_same(right + 1e-9, right, agree=torch.equal))
    assert details["expected"] != details["got"]


def test_the_place_is_where_they_first_differ_for_their_size():
    right = torch.tensor([1e9, 1.0])
    assert first_difference(torch.tensor([1e9 + 64, 2.0]), right) == (" at [1]", 1.0, 2.0)
    assert first_difference(torch.tensor(2.0), torch.tensor(1.0)) == ("", 1.0, 2.0)


def test_zero_has_no_sign_on_a_card():
    _, details = missed(lambda: expect_same(torch.tensor(torch.nan), torch.tensor(-0.0)))
    assert details == {"expected": "0", "got": "nan"}


def raises(error):
    def call():
        raise AnswerRaised(error, "")

    return call


def test_an_error_is_of_the_right_kind():
    expect_raises(ValueError, raises(ValueError("no batches")), "empty")
    assert missed(lambda: expect_raises(ValueError, lambda: 3, "empty")) == (
        "empty",
        {"expected": "ValueError", "got": "3"},
    )
    assert missed(lambda: expect_raises(ValueError, lambda: None, "empty"))[1]["got"] == "no error"
    another = raises(KeyError("a"))
    key, details = missed(lambda: expect_raises(Unlucky, another, "swallowed", what="its error", other=""))
    assert (key, details) == ("", {"expected": "its error", "got": "KeyError: 'a'"})


def test_hooks_are_as_many_as_before():
    model = nn.Linear(2, 2)
    expect_hooks(model, 0, "left")
    handle = model.register_forward_hook(lambda *_: None)
    assert missed(lambda: expect_hooks(model, 0, "left"))[0] == "left"
    handle.remove()
    assert missed(lambda: expect_hooks(model, 1, "left", "cleared"))[0] == "cleared"


def test_a_result_without_history():
    x = torch.ones(2, requires_grad=True)
    expect_no_history(x.detach(), "history")
    assert missed(lambda: expect_no_history(x * 2, "history"))[1]["got"] == "grad_fn MulBackward0"
    assert missed(lambda: expect_no_history(x, "history"))[0] == "history"
    assert missed(lambda: expect_no_history(x, "history", ""))[0] == ""


def test_a_gradient_is_none_where_no_path_leads():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    result = 3 * x
    assert gradient(result, x).tolist() == [3, 3] and gradient(result, x, torch.tensor([1.0, 2.0])).tolist() == [3, 6]
    assert gradient(result, y) is None and gradient(x.detach(), x) is None


def test_a_batch_that_cannot_be_read_comes_last():
    items = unlucky([1, 2])
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(Unlucky):
        next(items)
    with pytest.raises(Unlucky):
        Raises()(torch.ones(1))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells on Linux alone whether a page was read")
def test_a_page_tells_whether_its_tensor_was_read_by_whatever_means():
    page = Page(torch.ones(3))
    assert page.tensor.tolist() == [1, 1, 1]
    with page:
        page.tensor.requires_grad_()
    assert not page.was_read
    with page:
        thread = threading.Thread(target=page.tensor.detach().numpy().sum)
        thread.start()
        thread.join()
    assert page.was_read


def test_the_functions_and_methods_of_torch_that_are_called_are_named_with_what_they_return():
    x = torch.ones(2, requires_grad=True)
    with Calls() as calls:
        x.detach().numpy()
        result = torch.exp(x)
    x.sin()
    assert calls.names == ["detach", "numpy", "exp"]
    assert calls.tensors[-1] is result and len(calls.tensors) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells on Linux alone whether a page was read")
def test_a_module_on_a_page():
    module = nn.Linear(3, 2)
    page = Page.under(module)
    with page:
        shapes = [parameter.shape for parameter in module.parameters()]
    assert not page.was_read and shapes == [(2, 3), (2,)]
    with page:
        module(torch.ones(1, 3))
    assert page.was_read

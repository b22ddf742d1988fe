"""The numbers in a drawn graph are those of the computation, and drawing them leaves everything as it was."""

import matplotlib
import pytest
import torch
from torch import nn

matplotlib.use("Agg")

from matplotlib.text import Text

from course_utils import plot_graph
from course_utils.graph.numbers import numbers_of
from course_utils.graph.recorded import nodes_behind
from tests.recorded_graphs import leaf

pytestmark = pytest.mark.usefixtures("closed_figures")


def number(value):
    return torch.tensor(float(value), requires_grad=True)


def said(result, **names):
    """What is said of each node, by its name."""
    read = zip(nodes_behind(result), numbers_of(result, names), strict=True)
    return {node.name().rpartition("::")[2]: (numbers.value, numbers.gradient) for node, numbers in read}


def test_values_and_gradients_are_those_worked_out_on_paper():
    x, w = number(3), number(2)
    h = x * w
    assert said((h + 1) ** 2, h=h) == {
        "PowBackward0": ("49", "1"),
        "AddBackward0": ("7", "14"),
        "MulBackward0": ("6", "14"),
        "AccumulateGrad": ("2", "42"),  # the later of the two leaves, w: 14 times x
    }


def test_a_gradient_is_the_sum_over_all_ways():
    x = number(2)
    assert said(x * x + 3 * x)["AccumulateGrad"] == ("2", "7")


def test_a_value_that_nothing_holds_any_more_is_not_kept():
    x = number(3)
    assert said((x * 2 + 1) * 5)["AddBackward0"] == ("not kept", "5")
    named = x * 2 + 1
    assert said(named * 5, named=named)["AddBackward0"] == ("7", "5")


def test_tensors_are_written_out_and_several_outputs_too():
    a = torch.tensor([1.0, -2.5, 0.1, 1 / 3], requires_grad=True)
    first, _ = (a * 2).split(2)
    numbers = said(first.square().sum())
    assert numbers["AccumulateGrad"] == ("[1, -2.5, 0.1, 0.3333]", "[8, -20, 0, 0]")
    assert numbers["SplitBackward0"] == ("[2, -5]; not kept", "[4, -10]; none")


def test_what_a_custom_function_saved_is_found_without_running_its_forward():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * ctx.saved_tensors[0] * gradient

    numbers = said(Square.apply(number(1.5) * 2))
    assert numbers["MulBackward0"] == ("3", "6") and numbers["SquareBackward"] == ("9", "1")


def test_nothing_is_left_changed():
    x, w = number(3), number(2)
    h = x * w
    h.retain_grad()
    loss = (h + 1) ** 2
    x.grad = torch.tensor(5.0)
    before = x.grad
    for _ in range(2):
        plot_graph(loss, x=x, w=w, h=h, values=True)
    assert x.grad is before and before == 5 and w.grad is None and h.grad is None
    loss.backward()
    assert (x.grad, w.grad, h.grad) == (5 + 28, 42, 14)
    assert not x._backward_hooks and not h._backward_hooks


def test_hooks_of_the_graph_are_gone_also_after_an_error():
    x = number(1)
    seen = []

    def refuse(gradient):
        seen.append(gradient)
        raise ZeroDivisionError("once")

    h = x * 2
    handle = h.register_hook(refuse)
    loss = h.exp()
    with pytest.raises(ZeroDivisionError):
        plot_graph(loss, values=True)
    handle.remove()
    loss.backward()
    assert x.grad is not None and len(seen) == 1


def test_the_same_under_no_grad_and_with_anomaly_mode():
    loss = (number(2) * 3).exp()
    expected = numbers_of(loss, {})
    with torch.no_grad():
        assert numbers_of(loss, {}) == expected
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        assert numbers_of(loss, {}) == expected


def test_the_numbers_stand_in_the_boxes_and_in_the_words():
    x = number(3)
    drawing = plot_graph(x.square(), x=x, values=True, title="A square")
    assert drawing.description == (
        "A square: 2 nodes, from the result down. Pow: value 9, gradient 1. x: value 3, gradient 6."
    )
    words = [text.get_text() for text in drawing.ax.texts]
    assert words == ["Pow", "value 9", "gradient 1", "x", "value 3", "gradient 6"]
    shown = [text.get_text() for text in drawing.figure.findobj(Text)]
    assert not any("keeps" in text or " B" in text for text in shown)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: plot_graph(leaf(7).sum(), values=True), r"(?s)shape \[7\] has 7 numbers.*at most 6"),
        (lambda: plot_graph((leaf(1) * torch.ones(8)).sum(), values=True), r"shape \[8\] has 8 numbers"),
        (lambda: plot_graph(leaf(3) * 2, values=True), r"(?s)a tensor of shape \[3\].*result\.sum\(\)"),
        (lambda: plot_graph(leaf(1).sum(), leaf(1).sum(), values=True), "called with 2 tensors"),
        (
            lambda: plot_graph(nn.Sequential(*[nn.Linear(1, 1) for _ in range(20)])(leaf(1)), values=True),
            "of 121 nodes",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(draw, said):
    with pytest.raises(ValueError, match=said):
        draw()


def test_after_backward_it_says_what_to_do():
    loss = leaf(2).exp().sum()
    loss.backward()
    with pytest.raises(ValueError, match=r"(?s)after backward.*retain_graph=True"):
        plot_graph(loss, values=True)

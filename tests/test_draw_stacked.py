"""Stacked bars: counted and read, not compared by pixels."""

import matplotlib
import pytest

from course_utils.draw.stacked import plot_stacked

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

BILLS = {
    "nothing frozen": {"activations": 1408, "gradients": 1542, "optimizer state": 3084},
    "five of six layers frozen, the last one trains": {"activations": 256, "gradients": 257, "optimizer state": 514},
    "no training": {"activations": 0, "gradients": 0, "optimizer state": 0},
}


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    yield
    plt.close("all")


def bars(drawing):
    boxes = [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle)]
    return boxes[3:]  # the legend's come first


def test_every_part_has_a_length_in_proportion_and_begins_where_the_one_before_ends():
    drawing = plot_stacked(BILLS, title="The bill")
    sizes = [size for bill in BILLS.values() for size in bill.values()]
    longest = bars(drawing)[2]
    for bar, size in zip(bars(drawing), sizes, strict=True):
        assert bar.get_width() == pytest.approx(longest.get_width() * size / 3084)
    first, second, third = bars(drawing)[:3]
    assert second.get_x() == pytest.approx(first.get_x() + first.get_width())
    assert third.get_x() == pytest.approx(second.get_x() + second.get_width())


def test_parts_differ_in_colour_and_hatch():
    looks = [(bar.get_facecolor(), bar.get_hatch()) for bar in bars(plot_stacked(BILLS, title="The bill"))[:3]]
    assert len({colour for colour, _ in looks}) == len({hatch for _, hatch in looks}) == 3


def test_the_texts_lie_inside_the_figure_and_name_parts_and_sums():
    drawing = plot_stacked(BILLS, title="The bill")
    renderer, page = drawing.figure.canvas.get_renderer(), drawing.figure.bbox
    for text in drawing.ax.texts:
        box = text.get_window_extent(renderer)
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()
    texts = [text.get_text() for text in drawing.ax.texts]
    for text in ("The bill", "activations", "gradients", "optimizer state", "5.9 KiB", "1.0 KiB", "0 B"):
        assert text in texts


def test_it_draws_into_axes_that_exist():
    ax = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    assert plot_stacked(BILLS, title="The bill", ax=ax).ax is ax


@pytest.mark.parametrize("bills", [{}, {"one": {}}, {"one": dict.fromkeys("abcde", 1)}, {"one": {"a": 1}, "two": {}}])
def test_bills_that_cannot_be_compared_are_refused(bills):
    with pytest.raises(ValueError, match="bill"):
        plot_stacked(bills, title="The bill")

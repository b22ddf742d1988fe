"""The heat map of ratios: counted and read, not compared by pixels."""

import matplotlib
import pytest

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from course_utils.draw.heat_map import colour, plot_heat_map, written
from course_utils.draw.style import PAPER, contrast

RATIOS = [[0.25, 0.5, 1.0], [1.1, 8.0, 120.0]]
ROWS, COLUMNS = ("number of models", (2, 100)), ("width of a layer", (8, 64, 512))


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    yield
    plt.close("all")


def drawn(ratios=RATIOS, rows=ROWS, columns=COLUMNS, **options):
    drawing = plot_heat_map(ratios, rows=rows, columns=columns, **{"title": "Times faster"} | options)
    drawing.figure.canvas.draw()
    return drawing


def cells(drawing):
    return [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle)]


def test_every_ratio_stands_in_its_cell_and_the_first_row_on_top():
    drawing = drawn()
    texts = {text.get_position(): text.get_text() for text in drawing.ax.texts}
    assert texts == {(x, y): written(ratio) for y, row in enumerate(RATIOS) for x, ratio in enumerate(row)}
    assert drawing.ax.get_ylim()[0] > drawing.ax.get_ylim()[1]
    assert len(cells(drawing)) == 6


def test_ratios_are_written_with_two_digits_that_count():
    assert [written(ratio) for ratio in (0.0123, 0.25, 0.994, 0.996, 2.34, 9.96, 120.0)] == [
        "0.012x",
        "0.25x",
        "0.99x",
        "1.0x",
        "2.3x",
        "10x",
        "120x",
    ]


def test_one_is_paper_and_the_sides_of_it_have_colours_of_their_own():
    assert colour(1.0) == pytest.approx(matplotlib.colors.to_rgb(PAPER))
    assert colour(8.0) == colour(500.0) and colour(1 / 8) == colour(0.001)
    red, _, blue = colour(4.0)
    assert blue > red
    red, _, blue = colour(0.25)
    assert red > blue


def test_equal_factors_are_equally_far_from_paper():
    paper, below, above = (matplotlib.colors.to_rgb(c) for c in (PAPER, colour(1 / 8), colour(8.0)))
    half = [
        [(c - p) / (f - p) for c, p, f in zip(colour(ratio), paper, full, strict=True)]
        for ratio, full in ((8**-0.5, below), (8**0.5, above))
    ]
    assert half[0] == pytest.approx([0.5] * 3) and half[1] == pytest.approx([0.5] * 3)


@pytest.mark.parametrize("ratio", [0.01, 0.125, 0.2, 0.35, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 50.0])
def test_the_number_reads_on_its_colour(ratio):
    (text,) = drawn([[ratio]], ("models", [1]), ("width", [1])).ax.texts
    assert contrast(text.get_color(), colour(ratio)) >= 4.5


@pytest.mark.parametrize(
    ("rows", "columns", "title"),
    [(ROWS, COLUMNS, "Times faster"), (("a", [1]), ("b", [1]), "A title that is much wider than the only cell")],
)
def test_nothing_leaves_the_figure(rows, columns, title):
    ratios = [[2.0] * len(columns[1]) for _ in rows[1]]
    drawing = drawn(ratios, rows, columns, title=title, below="the loop is faster", above="one call is faster")
    renderer, page = drawing.figure.canvas.get_renderer(), drawing.figure.bbox
    ax = drawing.ax
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label, ax._left_title]
    boxes = [text.get_window_extent(renderer) for text in (*texts, *ax.get_legend().get_texts())]
    for box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    legend = ax.get_legend().get_window_extent(renderer)
    assert not legend.overlaps(ax.xaxis.label.get_window_extent(renderer))


def test_axes_are_named_and_the_legend_says_what_the_colours_mean():
    ax = drawn(below="the loop is faster", above="one call is faster").ax
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("number of models", "width of a layer")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["the loop is faster", "one call is faster"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["2", "100"]


def test_the_words_say_the_same_as_the_figure():
    words = drawn(below="the loop is faster", above="one call is faster").description
    assert words == (
        "Times faster. Down: number of models. Right: width of a layer. Below 1: the loop is faster; above 1: one call "
        "is faster. number of models 2: 0.25x at 8, 0.50x at 64, 1.0x at 512. number of models 100: 1.1x at 8, 8.0x at "
        "64, 120x at 512."
    )


def test_it_draws_into_axes_that_are_given():
    _, ax = plt.subplots()
    drawing = drawn(ax=ax)
    assert drawing.ax is ax and len(plt.get_fignums()) == 1


@pytest.mark.parametrize(
    ("ratios", "rows", "said"),
    [
        ([], ("a", []), "at least one row"),
        ([[1.0, 2.0]], ("a", [1]), "1 rows of 3"),
        ([[1.0, 2.0, 3.0]], ("a", [1, 2]), "2 rows of 3"),
        ([[1.0, 0.0, 3.0]], ("a", [1]), "above 0"),
        ([[1.0, float("nan"), 3.0]], ("a", [1]), "above 0"),
        ([[1.0, -2.0, 3.0]], ("a", [1]), "above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(ratios, rows, said):
    with pytest.raises(ValueError, match=said):
        plot_heat_map(ratios, rows=rows, columns=COLUMNS, title="")

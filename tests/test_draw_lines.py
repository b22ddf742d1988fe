import matplotlib

matplotlib.use("agg")

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from course_utils.draw.lines import plot_lines


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def drawn(lines, **options):
    drawing = plot_lines(lines, **{"x": "batch", "y": "bytes alive", "title": "Two loops"} | options)
    drawing.figure.canvas.draw()
    return drawing


def boxes(drawing):
    # An annotation's own extent takes its leader line in; here the words alone count.
    return [Text.get_window_extent(annotation) for annotation in drawing.ax.texts]


CROWDED = {f"line number {number}": [number, 5 + 0.001 * number] for number in range(6)}
AT_ZERO = {"kept": [100, 200], "cut": [4, 4], "number": [0, 0]}


@pytest.mark.parametrize("lines", [CROWDED, AT_ZERO, {"one": [1.0]}], ids=["crowded", "at zero", "one point"])
def test_every_line_is_named_and_no_name_touches_another_or_is_cut(lines):
    drawing = drawn(lines)
    found = boxes(drawing)
    assert [text.get_text() for text in drawing.ax.texts] and len(found) == len(lines)
    page = drawing.figure.bbox
    for number, box in enumerate(found):
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
        assert not any(box.overlaps(other) for other in found[:number])


def test_lines_differ_in_colour_dashes_and_marker():
    lines = drawn(CROWDED).ax.lines
    for look in ("get_color", "get_linestyle", "get_marker"):
        assert len({str(getattr(line, look)()) for line in lines}) >= 4
    assert len({(str(line.get_color()), line.get_marker()) for line in lines}) == 6


def test_bytes_are_counted_in_binary_units_with_round_ticks():
    labels = [label.get_text() for label in drawn({"a": [0, 1052676]}).ax.get_yticklabels()]
    assert labels == ["0 B", "256 KiB", "512 KiB", "768 KiB", "1 MiB"]
    assert drawn({"a": [0, 3]}, y="ratio").ax.get_yticklabels()[0].get_text() != "0 B"


def test_the_figure_says_in_words_what_it_shows():
    words = drawn({"kept": [40, 80, 60], "freed": [40, 40, 40]}).description
    assert "Two loops." in words and "Right: batch, from 1 to 3." in words
    assert "kept: from 40 B to 60 B, between 40 B and 80 B." in words and "freed: 40 B throughout." in words


def test_x_positions_can_be_given():
    line = drawn({"a": [1, 2, 3]}, at=[1, 4, 16]).ax.lines[0]
    assert list(line.get_xdata()) == [1, 4, 16]


@pytest.mark.parametrize("lines", [{}, {"a": []}, {str(n): [1] for n in range(7)}], ids=["none", "empty", "seven"])
def test_too_few_and_too_many_lines_are_refused(lines):
    with pytest.raises(ValueError, match="Expected"):
        drawn(lines)


def test_a_line_of_another_length_than_its_positions_is_refused():
    with pytest.raises(ValueError, match="'a' has 3 values"):
        drawn({"a": [1, 2, 3]}, at=[1, 2])


def test_axes_of_the_learner_s_own_are_used():
    _, ax = plt.subplots()
    assert drawn({"a": [1, 2]}, ax=ax).ax is ax

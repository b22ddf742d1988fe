"""Images and maps: counted and read, not compared by pixels."""

import matplotlib
import pytest
import torch

from course_utils.draw.maps import plot_maps

matplotlib.use("agg")
from matplotlib import pyplot as plt

IMAGES = [("a 1", torch.eye(2)), ("a 7", torch.ones(2, 2))]
MAPS = [("for 1", torch.tensor([[0.0, 4.0], [-1.0, 0.5]])), ("for 7", torch.tensor([[0.0, 0.0], [0.0, 2.0]]))]


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    yield
    plt.close("all")


def drawn(images=IMAGES, *rows, title="Where it looks"):
    return plot_maps(images, *(rows or (MAPS,)), title=title)


def test_images_stand_above_the_maps_each_under_its_name():
    axes = drawn().figure.axes
    assert [ax.get_title() for ax in axes] == ["a 1", "a 7", "for 1", "for 7"]
    tops = [ax.get_position().y0 for ax in axes]
    assert tops[0] == tops[1] > tops[2] == tops[3]
    for ax, (_, grid) in zip(axes, IMAGES + MAPS, strict=True):
        assert torch.equal(torch.from_numpy(ax.images[0].get_array().data).float(), grid)


def test_all_maps_have_one_scale_around_zero_and_the_note_gives_it():
    drawing = drawn()
    assert {ax.images[0].get_clim() for ax in drawing.figure.axes[2:]} == {(-4.0, 4.0)}
    assert "white: 0; full blue: 4.00; full orange: -4.00" in [text.get_text() for text in drawing.figure.texts]


def test_orange_is_not_spoken_of_where_nothing_is_below_zero():
    texts = [text.get_text() for text in drawn(IMAGES, MAPS[1:]).figure.texts]
    assert "white: 0; full blue: 2.00" in texts


def test_maps_of_zeros_are_white():
    drawing = drawn(IMAGES[:1], [("nothing", torch.zeros(2, 3))])
    assert drawing.figure.axes[1].images[0].get_clim() == (-1.0, 1.0)


def test_the_texts_lie_inside_the_figure():
    drawing = drawn(IMAGES[:1], MAPS[:1], title="Where a model looks that has to tell an 8 from a 3")
    renderer, page = drawing.figure.canvas.get_renderer(), drawing.figure.bbox
    for text in [*drawing.figure.texts, *(ax.title for ax in drawing.figure.axes)]:
        box = text.get_window_extent(renderer)
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()


def test_long_names_do_not_run_into_each_other():
    drawing = drawn([("a digit with a long name", torch.eye(2)), ("another with a long one", torch.eye(2))])
    renderer = drawing.figure.canvas.get_renderer()
    first, second = (ax.title.get_window_extent(renderer) for ax in drawing.figure.axes[:2])
    assert first.x1 < second.x0 and drawing.figure.bbox.x0 <= first.x0


def test_the_words_say_the_range_and_the_place_of_the_most():
    assert drawn().description == (
        "Where it looks. Images: a 1, a 7. for 1: from -1.00 to 4.00, the most at row 1, column 2. "
        "for 7: from 0.00 to 2.00, the most at row 2, column 2."
    )


@pytest.mark.parametrize("images, rows", [([], (MAPS,)), (IMAGES, ()), (IMAGES, ([],))])
def test_no_images_or_no_maps_are_refused(images, rows):
    with pytest.raises(ValueError, match="at least one of each"):
        plot_maps(images, *rows, title="Nothing")


def test_what_is_not_flat_is_refused():
    with pytest.raises(ValueError, match="'a 1' has shape"):
        drawn([("a 1", torch.zeros(1, 2, 2))])

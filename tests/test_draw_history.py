"""The figure of grad control through the versions: counted and read, not compared by pixels."""

import matplotlib
import pytest

from course_utils.draw.history import ERAS, RELEASES, plot_history

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.patches import Polygon


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    yield
    plt.close("all")


def test_every_era_is_drawn_with_what_it_did():
    drawing = plot_history()
    filled = [patch for patch in drawing.ax.patches if isinstance(patch, Polygon) and patch.get_fill()]
    texts = [text.get_text() for text in drawing.ax.texts]
    assert len([patch for patch in filled if patch.get_facecolor()[3]]) == len(ERAS)
    assert all(era.effect in texts for era in ERAS)
    assert [tick.get_text() for tick in drawing.ax.get_yticklabels()] == list(dict.fromkeys(era.row for era in ERAS))


def test_what_no_longer_works_is_hatched_too_so_that_colour_is_not_the_only_sign():
    hatched = [patch for patch in plot_history().ax.patches if patch.get_hatch()]
    assert len(hatched) == sum(era.lapsed for era in ERAS)


def test_the_axis_has_a_title_and_a_unit_and_releases_have_their_line():
    ax = plot_history().ax
    assert ax.get_title(loc="left") and ax.get_xlabel() == "year"
    assert [line.get_xdata()[0] for line in ax.lines] == [when for when, *_ in RELEASES]


def test_the_texts_lie_inside_the_figure_and_the_effects_inside_their_bars():
    drawing = plot_history()
    renderer = drawing.figure.canvas.get_renderer()
    page = drawing.figure.bbox
    for text in (*drawing.ax.texts, *drawing.ax.get_yticklabels(), *drawing.ax.get_xticklabels()):
        box = text.get_window_extent(renderer)
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()
    for era in (era for era in ERAS if era.end is not None):
        (text,) = (text for text in drawing.ax.texts if text.get_text() == era.effect)
        right = drawing.ax.transData.transform((era.end, 0))[0]
        assert text.get_window_extent(renderer).x1 < right


def test_the_words_say_the_same_as_the_figure():
    words = plot_history(title="Then and now").description
    assert words.startswith("Then and now. ")
    for version, date in (release[1:] for release in RELEASES):
        assert f"{version} ({date})" in words
    assert "volatile=True, from 0.1 (January 2017) to 0.4 (April 2018): flag of an input" in words


def test_it_draws_into_axes_that_are_given():
    _, ax = plt.subplots()
    drawing = plot_history(ax=ax)
    assert drawing.ax is ax and len(plt.get_fignums()) == 1


def test_eras_of_a_row_follow_each_other_and_start_at_releases():
    dates = {when for when, *_ in RELEASES}
    for era in ERAS:
        assert era.start in dates and (era.end is None or (era.end in dates and era.start < era.end))

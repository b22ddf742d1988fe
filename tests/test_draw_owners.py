"""The timeline by owner: read, not compared by pixels."""

import matplotlib
import pytest
import torch

from course_utils import MemoryTracker
from course_utils.draw.owners import plot_owners

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.text import Text


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    yield
    plt.close("all")


def test_each_phase_owns_what_it_made_until_that_is_gone():
    with MemoryTracker() as mem:
        with mem.phase("one"):
            first = torch.ones(100)
        with mem.phase("two"):
            second = torch.ones(50)
            del first
        third = torch.ones(25)
    drawing = plot_owners(mem, title="Three owners")
    assert "At the peak: made in one 400 B, made in two 200 B." in str(drawing)
    written = {text.get_text() for text in drawing.figure.findobj(Text)}
    assert {"made in one", "made in two", "made outside of phases"} <= written
    assert second.numel() + third.numel() == 75


def test_owners_differ_in_colour_and_in_hatching():
    with MemoryTracker() as mem:
        kept = []
        for number in range(3):
            with mem.phase(f"batch {number}"):
                kept.append(torch.ones(10))
    areas = plot_owners(mem).ax.collections
    looks = [(tuple(area.get_facecolor()[0]), area.get_hatch()) for area in areas]
    assert len(set(looks)) == len({color for color, _ in looks}) == len({hatch for _, hatch in looks}) == 3

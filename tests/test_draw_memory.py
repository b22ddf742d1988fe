"""Figures of bytes over time: the peak, the areas, the phases and their names, and owners."""

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

from matplotlib.patches import Rectangle
from matplotlib.text import Text

from course_utils.draw import plot_memory
from course_utils.draw.memory import CATEGORY_STYLES, nested_levels, phase_names, phase_stem
from course_utils.draw.owners import plot_owners
from course_utils.memory import MemoryTracker
from tests.figures import four_batches, nested, step, training_step
from tests.recorded_graphs import leaf

pytestmark = pytest.mark.usefixtures("closed_figures")


def test_a_timeline_in_words():
    x = leaf(1000)
    with MemoryTracker(x) as memory:
        with memory.phase("forward"):
            loss = x.exp().sum()
        with memory.phase("backward"):
            loss.backward()
    words = plot_memory(memory, title="One exp").description
    assert words.startswith("One exp, over 6 allocations and frees: peak 7.8 KiB after aten::mul in backward; ")
    assert "At the peak: gradients 3.9 KiB, saved for backward 3.9 KiB" in words
    assert words.endswith("Left behind by each phase: forward +3.9 KiB, backward 0 B.")


def test_the_peak_is_marked_with_its_operation():
    drawing = step()
    memory = training_step().timeline()
    (marker,) = [line for line in drawing.ax.lines if line.get_marker() == "o"]
    assert list(marker.get_xdata()) == [memory.peak_event]
    assert [text.get_text() for text in drawing.ax.texts if "\n" in text.get_text()] == [
        f"peak {memory.peak / 1024:.1f} KiB\nafter {memory.peak_op}"
    ]


def test_an_area_for_each_category_and_a_band_for_each_phase():
    memory = training_step(2)
    drawing = plot_memory(memory)
    assert len(drawing.ax.collections) == len(memory.timeline().categories)
    bands = [patch for patch in drawing.ax.patches if isinstance(patch, Rectangle)]
    assert [(band.get_x(), band.get_x() + band.get_width()) for band in bands] == [
        (phase.first_event, phase.last_event) for phase in memory.phases
    ]


def test_only_outer_phases_are_shaded():
    assert len([patch for patch in nested().ax.patches if isinstance(patch, Rectangle)]) == 1


def test_categories_differ_without_colour_too():
    hatches = [hatch for _, hatch in CATEGORY_STYLES.values()]
    assert sorted(hatches).count("") == 2  # plain sky and plain grey: the palest and the darkest without hatching
    assert len(set(CATEGORY_STYLES.values())) == len(CATEGORY_STYLES)


def test_names_of_phases_stand_above_the_middle_of_their_phase():
    drawing = four_batches()
    (above,) = drawing.ax.child_axes
    names = {label.get_text(): label.get_position()[0] for label in above.get_xticklabels()}
    assert names == {phase.name: (phase.first_event + phase.last_event) / 2 for phase in training_step(4).phases}


def test_names_of_phases_stand_upright_turn_or_go_into_a_key():
    def found(room, *names):
        return phase_names([(name, room) for name in names], len)

    assert found(20, "forward0", "backward0").written == ((0, "forward0", False), (1, "backward0", False))
    assert found(12, "forward0", "backward0").written == ((0, "forward0", True), (1, "backward0", True))
    thin = found(5, "forward0", "backward0", "forward1", "backward1", "step")
    assert thin.written == () and thin.key == (("forward", 2), ("backward", 2), ("step", 1))
    mixed = phase_names([("a", 40), ("b", 40), ("zero", 0), ("c", 40)], len)
    assert mixed.left_out == ("zero",) and len(mixed.written) == 3


def test_small_decisions():
    assert [phase_stem(name) for name in ("forward3", "epoch [2]", "7", "step")] == ["forward", "epoch", "7", "step"]
    assert nested_levels([(0, 9), (0, 4), (4, 9), (9, 12)]) == [0, 1, 1, 0]


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

"""The control panel: what its rows say is what PyTorch does, worked out here in another way."""

import re

import pytest
import torch
from torch import nn

from course_utils import control_panel
from course_utils.catalogue import COURSE, find

ACTIVATION = 16 * 32 * 4  # bytes


@pytest.fixture(scope="module")
def panel():
    return control_panel()


@pytest.fixture(scope="module")
def rows(panel):
    return {control.name: control for control in panel.controls}


def test_what_each_control_does(rows):
    everything, learning = ("images", "encoder", "head"), ("images", "head")
    said = {
        name: (row.runs, row.recorded, row.reaches_images, row.filled, row.kept_bytes) for name, row in rows.items()
    }
    assert said == {
        "no control": (True, True, "yes", everything, 2 * ACTIVATION),
        "no_grad": (True, False, "no", ("head",), ACTIVATION),
        "inference_mode": (True, False, "no", (), None),
        "detach()": (True, True, "no", ("head",), ACTIVATION),
        ".data": (True, True, "no", ("head",), ACTIVATION),
        "lowered flags": (True, True, "yes", learning, 2 * ACTIVATION),
        "lowered flags, plain images": (True, False, "no", ("head",), ACTIVATION),
        "eval()": (True, True, "yes", everything, 2 * ACTIVATION),
        "a forward hook": (True, True, "yes", everything, 2 * ACTIVATION),
        "a tensor hook": (True, True, "zeros", everything, 2 * ACTIVATION),
        "a skipped branch": (False, False, "no", ("head",), ACTIVATION),
    }


def test_what_may_be_saved_and_where_an_edit_is_noticed(rows):
    assert [name for name, row in rows.items() if not row.may_be_saved] == ["inference_mode"]
    assert [name for name, row in rows.items() if row.edit_is_noticed is False] == [".data"]
    unrecorded = [name for name, row in rows.items() if not row.recorded]
    assert [name for name, row in rows.items() if row.edit_is_noticed is None] == unrecorded


def test_two_rows_by_hand():
    """Without the panel's own machinery: the weight's gradient under detach, and an edit through .data."""
    weight, head = torch.ones(3, requires_grad=True), nn.Linear(3, 1)
    head(weight.tanh().detach()).sum().backward()
    assert weight.grad is None and head.weight.grad is not None
    output = weight.tanh()
    output.data.zero_()
    output.sum().backward()
    assert weight.grad.tolist() == [1, 1, 1]  # wrong, and nothing said so: tanh's slope at 1 is 0.42


def test_it_leaves_modes_and_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with torch.no_grad():
        assert control_panel().controls[0].recorded
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(2), expected)


def test_table_and_text_say_the_same(panel):
    html, text = panel._repr_html_(), repr(panel)
    assert html.count("<tr>") == len(panel.controls) + 1
    for control in panel.controls:
        lesson = find(control.lesson)
        assert (COURSE / "notebooks" / f"{lesson.notebook}.ipynb").exists()
        assert f'href="{lesson.notebook}.ipynb"' in html and f"{control.name} (lesson {lesson.number:02d})" in text
        block = text[text.index(f"{control.name} (lesson") :].partition("\n\n")[0]
        assert [fact for fact in control.facts if not re.search(rf"  {re.escape(fact)}$", block, re.MULTILINE)] == []
        assert all(f"| {line}" in block for line in control.code.splitlines())
    assert max(map(len, text.splitlines())) <= 88

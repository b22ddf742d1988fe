"""``%%memory`` in a real IPython."""

import re

import pytest


@pytest.fixture
def shell(shell):
    shell.run_cell("import torch\nx = torch.ones(1000, requires_grad=True)")
    return shell


def run(shell, capsys, cell):
    capsys.readouterr()
    result = shell.run_cell(cell, store_history=True)
    return result, capsys.readouterr().out


def test_cell_tells_peak_and_what_its_result_keeps(shell, capsys):
    result, out = run(shell, capsys, "%%memory x\ny = x.exp().sum()\ny * 2.0")
    assert result.success
    assert out.splitlines()[:5] == [
        "Memory of this cell on cpu",
        "peak              3.9 KiB after aten::mul",
        "still alive       3.9 KiB",
        "  held by graphs  3.9 KiB",
        # 4000 of exp, 4 of the result and the 2.0 that autograd boxed: y's own 4 bytes are not in it.
        "  kept by Out[1]  3.9 KiB, as long as Out[1] or _ does; end the cell with ; to let go",
    ]
    assert shell.user_ns["y"].shape == ()
    assert shell.user_ns["Out"][1] is result.result


def test_semicolon_lets_go(shell, capsys):
    result, out = run(shell, capsys, "%%memory\nx.exp().sum();")
    assert result.result is None
    assert "kept by" not in out
    result, out = run(shell, capsys, "%%memory\ny = x.exp()")
    assert "kept by" not in out


def test_names_and_options_are_understood(shell, capsys):
    _, out = run(shell, capsys, "%%memory x --device meta\nz = torch.empty(256, device='meta')")
    title, peak, alive = out.splitlines()[:3]
    assert title == "Memory of this cell on meta"
    assert (peak, alive) == ("peak              1.0 KiB after aten::empty", "still alive       1.0 KiB")


def test_unknown_word_is_refused(shell, capsys):
    result, _ = run(shell, capsys, "%%memory nothing\n1")
    assert isinstance(result.error_in_exec, ValueError)
    assert "names of this notebook's models" in str(result.error_in_exec)


def test_error_in_the_cell_is_the_cells_error(shell, capsys):
    result, out = run(shell, capsys, "%%memory\ny = x.exp()\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "peak              3.9 KiB after aten::exp" in out
    result, _ = run(shell, capsys, "%%memory\ny = (")
    assert isinstance(result.error_in_exec or result.error_before_exec, SyntaxError)


def test_growth_names_what_a_cell_keeps(shell, capsys):
    cell = """%%memory --growth
model, kept = torch.nn.Linear(8, 8), []
for _ in range(20):
    kept.append(model(torch.ones(4, 8)))
"""
    _, out = run(shell, capsys, cell)
    assert "growing by 256 B per call" in out
    assert "`kept.append(model(torch.ones(4, 8)))`" in out
    assert re.search(r"`kept`, a list of 20, a global, Cell In\[1\], line 4", out)

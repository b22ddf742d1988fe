"""Rebuilding a submission: nothing is run here."""

import json

import pytest

from course_utils.classroom.answers import ELSEWHERE
from course_utils.classroom.reading import LARGEST_BYTES, Unreadable, read_cells
from course_utils.classroom.rebuild import rebuild
from course_utils.classroom.released import read_released
from course_utils.classroom.source import defined, used
from tests.classroom.handed_in import Notebook, released, solutions

HELPER = "def halve(x):\n    return x / 2"
SNAPSHOT = "def snapshot(x):\n    return x.detach().clone()"


def rebuilt(notebook):
    content = notebook if isinstance(notebook, bytes) else notebook.bytes()
    return rebuild(read_released(released()), content, LARGEST_BYTES)


def step(result, name):
    """The step of a released cell."""
    return next(step for step in result.steps if step.released and step.released.id == name)


def added(result):
    return [step for step in result.steps if step.released is None]


def order(result):
    return [cell["id"] for cell in result.notebook["cells"]]


def test_an_untouched_notebook_comes_back_as_it_was_released():
    result = rebuilt(released().encode())
    assert json.dumps(result.notebook) == json.dumps(json.loads(released()) | {"cells": result.notebook["cells"]})
    assert order(result) == [cell["id"] for cell in json.loads(released())["cells"]]
    assert result.repairs == [] and not result.shuffled
    assert step(result, "snapshot").blank


def test_answers_are_put_in_and_nothing_else_is_said():
    result = rebuilt(Notebook().solve())
    assert {name: step(result, name).source for name in solutions()} == solutions()
    assert result.repairs == [] and not result.shuffled


def test_a_released_notebook_pairs_checks_with_answers():
    notebook = read_released(released())
    checks = [cell for cell in notebook.cells if cell.role == "check"]
    assert [(cell.answer, cell.exercise, cell.expression) for cell in checks] == [(name,) * 3 for name in solutions()]
    assert {cell.lesson for cell in checks} == {"detach"}
    assert [cell.id for cell in notebook.graded] == [*(f"{name}-check" for name in solutions()), "written"]


def test_added_cells_stay_where_they_are():
    notebook = Notebook().solve().add(HELPER, after="snapshot-text").add("My notes.", after="case", kind="markdown")
    result = rebuilt(notebook)
    assert [step.source for step in added(result)] == ["My notes.", HELPER]
    names = order(result)
    assert names.index(f"added-{notebook.index('snapshot')}") == names.index("snapshot-text") + 1
    assert result.repairs == []


# What students do to cells, as JupyterLab 4 saves it.


def test_a_split_answer_keeps_both_parts_in_order():
    notebook = Notebook().write(snapshot=f"{HELPER}\n\n\n{SNAPSHOT}").split("snapshot", at="def snapshot")
    result = rebuilt(notebook)
    assert step(result, "snapshot").source == SNAPSHOT
    assert [part.source for part in added(result)] == [HELPER]
    assert result.steps.index(added(result)[0]) == result.steps.index(step(result, "snapshot")) - 1


def test_an_answer_split_inside_its_function_is_put_together():
    whole = "def snapshot(x):\n    y = x.detach()\n    return y.clone()"
    result = rebuilt(Notebook().write(snapshot=whole).split("snapshot", at="    return"))
    assert whole in (step(result, "snapshot").source, *step(result, "snapshot").copies)


def test_an_answer_merged_with_the_text_above_it_is_code_again():
    notebook = Notebook().write(snapshot=SNAPSHOT).merge("snapshot-text", "snapshot", active="snapshot")
    result = rebuilt(notebook)
    assert step(result, "snapshot").source == SNAPSHOT
    assert not added(result)


def test_an_answer_merged_into_text_is_code_again():
    notebook = Notebook().write(snapshot=SNAPSHOT).merge("snapshot-text", "snapshot", active="snapshot-text")
    # Without nbgrader's metadata, in a cell of text: still read as code.
    notebook.cell("merged")["cell_type"] = "code"
    assert SNAPSHOT in (step(rebuilt(notebook), "snapshot").copies)


def test_two_answers_merged_into_one_cell_both_count():
    notebook = Notebook().solve().merge("mean_loss", "truncated_bptt", active="mean_loss")
    result = rebuilt(notebook)
    both = "\n\n".join((solutions()["mean_loss"], solutions()["truncated_bptt"]))
    assert step(result, "mean_loss").source == both
    assert step(result, "truncated_bptt").source == ELSEWHERE
    assert step(result, "truncated_bptt").copies == (both,)


def test_an_answer_merged_with_its_check_is_found_and_the_check_restored():
    notebook = Notebook().solve().merge("snapshot", "snapshot-check", active="snapshot")
    result = rebuilt(notebook)
    assert step(result, "snapshot").source == solutions()["snapshot"]
    assert step(result, "snapshot-check").source == 'lesson.check("snapshot", snapshot)'
    assert "The check cell of `snapshot` was missing; it was put back." in result.repairs


def test_copies_of_an_answer_are_all_judged():
    other = "def snapshot(x):\n    return x"
    result = rebuilt(Notebook().write(snapshot=SNAPSHOT).paste("snapshot", after="mean_loss-check", source=other))
    assert step(result, "snapshot").source == SNAPSHOT
    assert step(result, "snapshot").copies == (other,)
    assert [part.is_copy for part in added(result)] == [True]
    assert "The answer `snapshot` stands in 2 cells; each was judged, and the best one counts." in result.repairs


def test_a_copied_stub_is_no_second_answer():
    notebook = Notebook().paste("snapshot", after="case").write(snapshot=SNAPSHOT)
    result = rebuilt(notebook)
    assert step(result, "snapshot").copies == () and not added(result)


def test_of_a_cell_that_was_cut_and_pasted_the_edited_one_counts():
    # The original may not be deleted: it stays, and the pasted one has its id.
    for edited in ("pasted", "original"):
        notebook = Notebook()
        stub = notebook.cell("snapshot")["source"]
        notebook.paste("snapshot", after="snapshot", id="b0c2e798").move("snapshot", after="case-run")
        notebook.cell("b0c2e798" if edited == "original" else "snapshot")["source"] = SNAPSHOT
        result = rebuilt(notebook)
        assert step(result, "snapshot").source == SNAPSHOT
        assert stub not in [part.source for part in added(result)]


def test_a_moved_answer_goes_back_to_its_place():
    result = rebuilt(Notebook().solve().move("snapshot", after="scorecard"))
    assert order(result) == [cell["id"] for cell in json.loads(released())["cells"]]
    assert step(result, "snapshot").source == solutions()["snapshot"]
    assert result.shuffled


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_answer_retyped_as_text_is_read_as_code(kind):
    notebook = Notebook().solve()
    notebook.cell("snapshot")["cell_type"] = kind
    result = rebuilt(notebook)
    assert step(result, "snapshot").source == solutions()["snapshot"]
    assert result.notebook["cells"][step(result, "snapshot").index]["cell_type"] == "code"
    assert any("`snapshot` had been turned into" in repair for repair in result.repairs)


def test_a_deleted_answer_cell_is_put_back_as_released():
    result = rebuilt(Notebook().solve().remove("snapshot"))
    assert step(result, "snapshot").blank
    assert result.repairs == ["The answer cell of `snapshot` was missing; it was put back as it was released."]


def test_an_answer_in_a_cell_of_its_own_is_found_by_its_name():
    notebook = Notebook().add(SNAPSHOT, after="snapshot-check")
    assert step(rebuilt(notebook), "snapshot").copies == (SNAPSHOT,)
    notebook.remove("snapshot")
    assert step(rebuilt(notebook), "snapshot").copies == (SNAPSHOT,)


@pytest.mark.parametrize("lost", ["ids", "nbgrader", "both"])
def test_answers_are_found_without_ids_or_metadata(lost):
    notebook = Notebook().solve()
    for cell in notebook.cells:
        if lost != "nbgrader":
            cell.pop("id")
        if lost != "ids":
            cell["metadata"] = {}
    result = rebuilt(notebook)
    found = {name: (step(result, name).source, *step(result, name).copies) for name in solutions()}
    assert all(source in found[name] for name, source in solutions().items())
    assert order(result)[: len(order(result))] == order(result)
    assert [s.released.id for s in result.steps if s.released] == [c.id for c in read_released(released()).cells]


def test_edited_ids_and_points_change_nothing():
    notebook = Notebook().solve()
    check = notebook.cell("snapshot-check")
    check["metadata"]["nbgrader"] |= {"points": 100, "grade_id": "something-else", "schema_version": 4}
    notebook.cell("mean_loss")["metadata"]["nbgrader"]["grade_id"] = "detach-snapshot"
    result = rebuilt(notebook)
    cells = {cell["id"]: cell for cell in result.notebook["cells"]}
    original = {cell["id"]: cell for cell in json.loads(released())["cells"]}
    assert all(cells[name]["metadata"] == original[name]["metadata"] for name in original)
    assert step(result, "mean_loss").source == solutions()["mean_loss"]


def test_an_edited_check_is_replaced_by_the_released_one():
    notebook = Notebook().solve()
    notebook.cell("snapshot-check")["source"] = "1.0"
    result = rebuilt(notebook)
    assert step(result, "snapshot-check").source == 'lesson.check("snapshot", snapshot)'
    assert result.repairs == ["The check cell of `snapshot` had been edited; the released one was used."]


def test_a_copied_check_is_left_out():
    result = rebuilt(Notebook().solve().paste("snapshot-check", after="case"))
    assert not added(result)
    assert result.repairs == ["The check cell of `snapshot` was there 2 times; one was kept."]


def test_what_a_student_added_to_the_set_up_cell_is_kept_beside_it():
    notebook = Notebook().solve()
    notebook.cell("setup")["source"] += "\nimport math"
    result = rebuilt(notebook)
    names = order(result)
    assert "import math" in added(result)[0].source
    assert names.index("setup") + 1 == added(result)[0].index
    assert "The locked cell `setup` had been edited; the released one was used." in result.repairs


def test_an_edited_experiment_is_the_student_s_to_edit():
    notebook = Notebook()
    notebook.cell("three-run")["source"] = "curves = {}"
    result = rebuilt(notebook)
    assert step(result, "three-run").source == "curves = {}"
    assert result.repairs == []


def test_a_deleted_experiment_comes_back():
    result = rebuilt(Notebook().remove("three-run"))
    assert "add_up" in step(result, "three-run").source


def test_parts_of_a_written_answer_are_put_together():
    notebook = Notebook()
    notebook.cell("written")["source"] = "First.\n\nSecond."
    notebook.split("written", at="Second")
    result = rebuilt(notebook)
    assert step(result, "written").source == "First.\n\nSecond."
    assert not step(result, "written").blank
    assert step(rebuilt(Notebook()), "written").blank


def test_a_written_answer_retyped_as_code_is_read():
    notebook = Notebook()
    notebook.cell("written")["source"] = "Because."
    notebook.cell("written")["cell_type"] = "code"
    result = rebuilt(notebook)
    assert step(result, "written").source == "Because."
    assert result.notebook["cells"][step(result, "written").index]["cell_type"] == "markdown"


def test_strange_cells_are_left_out_and_said_so():
    notebook = Notebook().solve()
    notebook.cells.extend([3, {"cell_type": "heading", "source": "x"}, {"cell_type": "code", "source": 7}])
    result = rebuilt(notebook)
    assert len([repair for repair in result.repairs if "was left out" in repair]) == 3
    assert step(result, "snapshot").source == solutions()["snapshot"]


# Files that are no notebook.


UNREADABLE = {
    "missing": (None, "No notebook was handed in."),
    "empty": (b"", "The file is empty."),
    "blank": (b" \n", "The file is empty."),
    "not JSON": (b"def snapshot(x): pass", "The file is not JSON"),
    "truncated": (released().encode()[:5000], "cut off"),
    "a list": (b"[1, 2]", "no notebook"),
    "NaN": (b"NaN", "no notebook"),
    "some JSON": (b'{"a": 1}', "no notebook"),
    "nbformat 3": (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "format 3"),
    "nbformat 5": (b'{"nbformat": 5, "cells": []}', "format 5"),
    "cells are a dict": (b'{"nbformat": 4, "cells": {}}', "no list"),
    "too deep": (b"[" * 200_000, "nested"),
    "a long number": (b'{"nbformat": ' + b"9" * 6000 + b"}", "no notebook"),
    "UTF-16": (released().encode("utf-16"), "UTF-8"),
    "too many cells": (b'{"nbformat": 4, "cells": [' + b",".join([b"{}"] * 3000) + b"]}", "3000 cells"),
}


@pytest.mark.parametrize(("content", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_no_notebook_is_refused_with_the_reason(content, reason):
    with pytest.raises(Unreadable) as caught:
        read_cells(content)
    assert reason in str(caught.value)


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed():
    with pytest.raises(Unreadable, match="more than"):
        read_cells(b"{" * 2000, largest_bytes=1000)


def test_nan_in_an_output_does_no_harm():
    notebook = Notebook().solve()
    notebook.cell("case-run")["outputs"] = [{"data": float("nan")}]
    assert step(rebuilt(notebook), "snapshot").source == solutions()["snapshot"]


def test_a_byte_order_mark_does_no_harm():
    assert step(rebuilt(b"\xef\xbb\xbf" + Notebook().solve().bytes()), "snapshot").source == solutions()["snapshot"]


@pytest.mark.parametrize(
    "source",
    [
        "(" * 5000,
        "-" * 50_000 + "1",
        "x" + ".a" * 50_000,
        "not " * 20_000 + "1",
        "lambda: " * 5000 + "1",
        "\x00",
        "\ud800",
    ],
    ids=["brackets", "minus", "attributes", "not", "lambda", "null", "surrogate"],
)
def test_code_that_breaks_parsers_is_only_broken_code(source):
    notebook = Notebook().solve("mean_loss").write(snapshot=source)
    result = rebuilt(notebook)
    assert step(result, "mean_loss").source == solutions()["mean_loss"]
    assert defined(source) == frozenset()


# What code defines and uses.


def test_names_that_a_cell_binds_are_seen():
    source = "import a.b\nfrom c import d as e\nf = g = 1\nfor h in i:\n    if j:\n        k, *l = m\n"
    source += "with n as o: pass\nclass P:\n    q = 1\n"
    assert defined(source) == {"a", "e", "f", "g", "h", "k", "l", "o", "P"}


def test_names_that_a_cell_looks_up_outside_are_seen():
    source = "import a\ndef f(x, y=z):\n    w = x\n    return [v for v in u] + w + a.b + len(x)\nt\n"
    assert used(source) == {"z", "u", "t"}


def test_magics_do_not_hide_names():
    assert defined("%matplotlib inline\nx = 1\n!ls") >= {"x"}
    assert used("%time y = model(x)") == used("%time y = model(x)")

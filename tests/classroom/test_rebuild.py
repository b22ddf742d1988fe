"""Rebuilding a submission: nothing is run here."""

import json

import pytest

from course_utils.classroom.course.source import read_code
from course_utils.classroom.rebuild.reading import LARGEST_BYTES, Unreadable, clean_outputs, read_cells
from course_utils.classroom.rebuild.rebuild import rebuild
from course_utils.classroom.rebuild.released import read_released
from tests.classroom.handed_in import Notebook, released, solutions

HELPER = "def halve(x):\n    return x / 2"
SNAPSHOT = "def snapshot(x):\n    return x.detach().clone()"


def uses(source):
    return read_code(source).uses


def defined(source):
    return read_code(source).defines


def rebuilt(notebook):
    content = notebook if isinstance(notebook, bytes) else notebook.bytes()
    return rebuild(read_released(released()), content, LARGEST_BYTES)


def step(result, name):
    """The step of a released cell."""
    return next(step for step in result.steps if step.released and step.released.id == name)


def added(result):
    return [step for step in result.steps if step.released is None]


def run_by_students(result):
    return [part.source for part in added(result) if part.is_code]


def order(result):
    return [cell["id"] for cell in result.notebook["cells"]]


def test_the_notebook_of_another_assignment_is_called_that():
    with pytest.raises(Unreadable, match="This is the notebook of another assignment, whose cells are called 'no_grad"):
        rebuild(read_released(released()), Notebook("05_no_grad").solve().bytes(), LARGEST_BYTES)


def test_an_untouched_notebook_comes_back_as_it_was_released():
    result = rebuilt(released().encode())
    assert json.dumps(result.notebook) == json.dumps(json.loads(released()) | {"cells": result.notebook["cells"]})
    assert order(result) == [cell["id"] for cell in json.loads(released())["cells"]]
    assert result.repairs == []
    assert step(result, "snapshot").blank


def test_answers_are_put_in_and_nothing_else_is_said():
    result = rebuilt(Notebook().solve())
    assert {name: step(result, name).source for name in solutions()} == solutions()
    assert result.repairs == []


def test_a_released_notebook_pairs_checks_with_answers():
    notebook = read_released(released())
    checks = [cell for cell in notebook.cells if cell.role == "check"]
    assert [(cell.answer, cell.exercise, cell.expression) for cell in checks] == [(name,) * 3 for name in solutions()]
    assert {cell.lesson for cell in checks} == {"detach"}
    assert [cell.id for cell in notebook.graded] == [*(f"{name}-check" for name in solutions()), "written"]


def test_added_cells_stay_where_they_are():
    notebook = Notebook().solve().write(written="Because.")
    notebook.add(HELPER, after="snapshot-text").add("My notes.", after="case", kind="markdown")
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
    assert step(result, "snapshot").source == whole


def test_an_answer_merged_with_the_text_above_it_is_code_again():
    notebook = Notebook().write(snapshot=SNAPSHOT).merge("snapshot-text", "snapshot", active="snapshot")
    result = rebuilt(notebook)
    assert step(result, "snapshot").source == SNAPSHOT
    assert not added(result)


def test_an_answer_merged_into_text_is_code_again():
    notebook = Notebook().write(snapshot=SNAPSHOT).merge("snapshot-text", "snapshot", active="snapshot-text")
    # Without nbgrader's metadata, in a cell of text: still read as code.
    notebook.cell("merged")["cell_type"] = "code"
    assert SNAPSHOT in run_by_students(rebuilt(notebook))


def test_two_answers_merged_into_one_cell_both_count():
    notebook = Notebook().solve().merge("mean_loss", "truncated_bptt", active="mean_loss")
    result = rebuilt(notebook)
    both = "\n\n".join((solutions()["mean_loss"], solutions()["truncated_bptt"]))
    assert step(result, "mean_loss").source == both
    assert step(result, "truncated_bptt").is_stub and not step(result, "truncated_bptt").blank


def test_an_answer_merged_with_its_check_is_found_and_the_check_restored():
    notebook = Notebook().solve().merge("snapshot", "snapshot-check", active="snapshot")
    result = rebuilt(notebook)
    assert step(result, "snapshot").source == solutions()["snapshot"]
    assert step(result, "snapshot-check").source == 'lesson.check("snapshot", snapshot)'
    assert "The check cell of `snapshot` was missing; it was put back." in result.repairs


def test_a_copy_of_an_answer_is_run_where_it_stands():
    other = "def snapshot(x):\n    return x"
    result = rebuilt(Notebook().write(snapshot=SNAPSHOT).paste("snapshot", after="mean_loss-check", source=other))
    assert step(result, "snapshot").source == SNAPSHOT and run_by_students(result) == [other]
    assert "The answer `snapshot` stands in 2 cells; they were run in their order." in result.repairs


def test_a_copied_stub_is_no_second_answer():
    notebook = Notebook().paste("snapshot", after="case").write(snapshot=SNAPSHOT)
    result = rebuilt(notebook)
    assert not added(result)


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
    assert result.repairs == ["The cell of `snapshot` was missing; it was put back as it was released."]


def test_an_answer_in_a_cell_of_its_own_is_found_by_its_name():
    notebook = Notebook().add(SNAPSHOT, after="snapshot-check")
    assert run_by_students(rebuilt(notebook)) == [SNAPSHOT]
    notebook.remove("snapshot")
    assert run_by_students(rebuilt(notebook)) == [SNAPSHOT]


@pytest.mark.parametrize("lost", ["ids", "nbgrader", "both"])
def test_answers_are_found_without_ids_or_metadata(lost):
    notebook = Notebook().solve()
    for cell in notebook.cells:
        if lost != "nbgrader":
            cell.pop("id")
        if lost != "ids":
            cell["metadata"] = {}
    result = rebuilt(notebook)
    found = {name: (step(result, name).source, *run_by_students(result)) for name in solutions()}
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
    assert result.listed == ["The check cell of `snapshot` had been edited; the released one was used."]


def test_a_copied_check_is_left_out():
    result = rebuilt(Notebook().solve().paste("snapshot-check", after="case"))
    assert not added(result)


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


def test_of_strange_cells_is_read_what_is_text():
    notebook = Notebook().solve()
    notebook.cell("snapshot")["cell_type"] = "unknown"
    notebook.cell("mean_loss")["source"] = [solutions()["mean_loss"], 3, None]
    notebook.cells.extend([3, {"cell_type": "code", "source": 7}, {}])
    result = rebuilt(notebook)
    assert {name: step(result, name).source for name in solutions()} == solutions()
    assert added(result) == []
    assert len([repair for repair in result.repairs if "what is text in it was read" in repair]) == 4


# Answers that a text does not show, and odd but honest notebooks.


DYNAMIC = {
    "globals": 'globals()["snapshot"] = lambda x: x.detach().clone()',
    "exec": f"exec({SNAPSHOT!r})",
    "a module's attribute": 'import sys\nsetattr(sys.modules["__main__"], "snapshot", lambda x: x.detach().clone())',
    "a star import": "from helpers import *",
    "a shell's method": f"get_ipython().run_cell({SNAPSHOT!r})",
    "%run": "%run -i helpers.py",
    "a written file": f"%%writefile helpers.py\n{SNAPSHOT}",
    "a shell command": "!echo 'it is not (Python",
    "broken": "def snapshot(x:\n    return",
    "very long": "x = 1\n" * 100_000,
}


@pytest.mark.parametrize("source", DYNAMIC.values(), ids=DYNAMIC)
@pytest.mark.parametrize("after", ["snapshot-text", "snapshot", "snapshot-check"])
def test_code_that_may_define_an_answer_stays_in_its_place(source, after):
    result = rebuilt(Notebook().add(source, after=after))
    (own,) = added(result)
    assert (own.source, own.is_code) == (source, True)
    assert result.steps[own.index - 1].released.id == after
    assert step(result, "snapshot").blank
    assert result.own_code


def test_whether_there_is_code_of_the_student_s_own():
    assert not rebuilt(Notebook()).own_code
    assert not rebuilt(Notebook().write(written="Because.").add("Notes.", after="case", kind="markdown")).own_code
    assert rebuilt(Notebook().solve("snapshot")).own_code
    assert rebuilt(Notebook().write(**{"three-run": "curves = 1"})).own_code
    assert rebuilt(Notebook().add("import helpers", after="case")).own_code


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%prun -q", "\n\n%%time\n%%capture"])
def test_an_answer_under_a_cell_magic_is_found(magic):
    result = rebuilt(Notebook().add(f"{magic}\n{SNAPSHOT}", after="snapshot"))
    assert run_by_students(result) == [f"{magic}\n{SNAPSHOT}"] and not step(result, "snapshot").blank


@pytest.mark.parametrize("magic", ["%%writefile helpers.py", "%%bash", "%%timeit", "%%python3", "%%script bash"])
def test_what_does_not_run_in_the_notebook_is_no_answer(magic):
    notebook = Notebook().solve("snapshot").write(written="Because.")
    result = rebuilt(notebook.add(f"{magic}\n{SNAPSHOT}", after="snapshot"))
    assert result.repairs == []


STYLES = {
    "annotated": "snapshot: object = lambda x: x",
    "walrus": "print(snapshot := len)",
    "decorated": "import functools\n@functools.cache\ndef snapshot(x):\n    return x",
    "a class": "class snapshot:\n    pass",
    "async": "async def snapshot(x):\n    return x",
    "global": "def make():\n    global snapshot\n    snapshot = len\nmake()",
    "conditional": "if True:\n    def snapshot(x):\n        return x",
    "try": "try:\n    from helpers import snapshot\nexcept ImportError:\n    pass",
    "with": "with open('x') as f:\n    def snapshot(x):\n        return x",
    "match": "match 1:\n    case snapshot:\n        pass",
    "star": "first, *snapshot = 1, 2",
    "for": "for snapshot in ():\n    pass",
    "an alias": "import helpers as h; snapshot = h.snapshot",
    "indented": "    def snapshot(x):\n        return x",
    "tabs": "\tdef snapshot(x):\n\t\treturn x",
    "percent comments": "# %%\ndef snapshot(x):\n    return x\n# %% [markdown]\n# Words",
    "line magics": "%matplotlib inline\n!pip list\nsnapshot?\nsnapshot = len\ny = !ls (\nz = %pwd",
    "a magic in a block": "if True:\n    !ls\n    snapshot = len",
    "a continued command": "!ls \\\n  -l it's\nsnapshot = len",
}


@pytest.mark.parametrize("source", STYLES.values(), ids=STYLES)
def test_an_answer_is_found_however_it_is_written(source):
    assert "snapshot" in defined(source)
    assert step(rebuilt(Notebook().write(snapshot=source)), "snapshot").source == source
    assert run_by_students(rebuilt(Notebook().add(source, after="case"))) == [source]


@pytest.mark.parametrize("kind", ["raw", "markdown"])
def test_answers_that_were_all_turned_to_text_are_read(kind):
    notebook = Notebook().solve()
    for cell in notebook.cells:
        cell["cell_type"] = kind
    result = rebuilt(notebook)
    assert {name: step(result, name).source for name in solutions()} == solutions()


def test_the_order_of_cells_does_not_matter():
    notebook = Notebook().solve().add(HELPER, after="case")
    notebook.cells.reverse()
    result = rebuilt(notebook)
    assert {name: step(result, name).source for name in solutions()} == solutions()
    assert [part.source for part in added(result)] == [HELPER]


def test_an_emptied_answer_cell_is_blank():
    result = rebuilt(Notebook().write(snapshot="\n"))
    assert step(result, "snapshot").blank and step(result, "snapshot").source == Notebook().cell("snapshot")["source"]


def test_a_second_stub_without_metadata_does_not_undo_the_answer():
    notebook = Notebook().add(Notebook().cell("snapshot")["source"], after="snapshot").solve("snapshot")
    result = rebuilt(notebook)
    assert not added(result)


def test_what_was_added_to_a_check_stands_before_it():
    notebook = Notebook()
    notebook.cell("snapshot-check")["source"] = f'{SNAPSHOT}\nlesson.check("snapshot", snapshot)'
    result = rebuilt(notebook)
    assert [part.source for part in added(result)] == [SNAPSHOT]
    assert added(result)[0].index == step(result, "snapshot-check").index - 1


def test_a_released_text_or_experiment_that_was_filled_with_code_is_kept():
    notebook = Notebook().split("three-run", at="    total = 0")
    notebook.cell("snapshot-text").update({"cell_type": "code", "source": 'globals()["snapshot"] = len'})
    first = notebook.cell("first-part")["source"]
    result = rebuilt(notebook)
    assert [part.source for part in added(result)] == ['globals()["snapshot"] = len', first]
    assert added(result)[1].index == step(result, "three-run").index - 1


# Written answers.


WRITTEN = "It keeps every graph alive."
QUESTION = Notebook().cell("written-text")["source"]


def in_next_cell(notebook):
    notebook.add(WRITTEN, after="written", kind="markdown")


def in_two_next_cells(notebook):
    notebook.add("every graph alive.", after="written", kind="markdown").add("It keeps", after="written", kind="raw")


def in_a_cell_typed_anew(notebook):
    notebook.remove("written").add(WRITTEN, after="written-text", kind="markdown")


def between_question_and_answer(notebook):
    notebook.add(WRITTEN, after="written-text", kind="markdown")


def in_the_question(notebook):
    notebook.cell("written-text")["source"] += f"\n\n{WRITTEN}"


def merged_with_the_question(notebook):
    notebook.write(written=WRITTEN).merge("written-text", "written", active="written-text")


def as_a_comment(notebook):
    notebook.add(f"# {WRITTEN}", after="written")


def as_broken_code(notebook):
    notebook.add(WRITTEN, after="written")


def as_a_string(notebook):
    notebook.add(f'"""{WRITTEN}"""', after="written")


def as_a_markdown_magic(notebook):
    notebook.add(f"%%markdown\n{WRITTEN}", after="written")


def without_metadata(notebook):
    notebook.write(written=WRITTEN)
    for cell in notebook.cells:
        cell["metadata"] = {}
        cell.pop("id")


PLACES = (in_next_cell, in_two_next_cells, in_a_cell_typed_anew, between_question_and_answer, in_the_question)
PLACES += (merged_with_the_question, as_a_comment, as_broken_code, as_a_string, as_a_markdown_magic, without_metadata)


@pytest.mark.parametrize("place", PLACES)
def test_a_written_answer_beside_its_cell_waits_for_a_person(place):
    notebook = Notebook()
    place(notebook)
    result = rebuilt(notebook)
    written = step(result, "written")
    assert not written.blank
    shown = " ".join((written.source, *(part.source for part in added(result))))
    assert all(word in shown for word in WRITTEN.split()) and QUESTION not in shown


@pytest.mark.parametrize(
    ("kind", "text"), [("markdown", "See."), ("raw", "See."), ("code", "# See."), ("code", "Se e.")]
)
def test_words_anywhere_may_be_the_written_answer(kind, text):
    result = rebuilt(Notebook().add(text, after="case", kind=kind))
    written = step(result, "written")
    assert not written.blank and written.source == "*Your answer here.*"
    assert [part.source for part in added(result)] == [text]
    said = "was left as it was released; your teacher reads what may be meant, in cell 4."
    assert result.repairs == [f"The answer to `detach-written` {said}"]


def test_without_any_words_nothing_was_written():
    notebook = (
        Notebook().solve().add("x = 1  # a comment", after="case").add("1 + 1", after="case").add("%pwd", after="case")
    )
    notebook.add(QUESTION, after="case", kind="markdown").add("  \n", after="written", kind="markdown")
    notebook.cell("snapshot-check")["source"] = '# lesson.check("snapshot", snapshot)'
    assert step(rebuilt(notebook), "written").blank
    assert step(rebuilt(Notebook().merge("written-text", "written", active="written-text")), "written").blank


@pytest.mark.parametrize("role", ["task", "code"])
def test_other_cells_that_a_person_grades(role):
    notebook = json.loads(released())
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "written")
    if role == "task":
        cell["metadata"]["nbgrader"] |= {"task": True, "solution": False}
    else:
        cell |= {"cell_type": "code", "source": "# Your code here", "outputs": [], "execution_count": None}
    teacher, text = read_released(json.dumps(notebook)), "".join(cell["source"])

    def hand_in():
        return step(rebuild(teacher, json.dumps(notebook).encode(), LARGEST_BYTES), "written")

    # The work for a task stands in cells of the student's own, and whether it does is the teacher's to see.
    assert (hand_in().blank, hand_in().source) == (role == "code", text)
    notebook["cells"].append({"cell_type": "code", "source": "print(1)", "metadata": {}})
    assert (hand_in().blank, hand_in().source) == (False, text)
    cell["source"] = "plot()"
    assert hand_in().source == (text if role == "task" else "plot()")


# Files that are no notebook.


UNREADABLE = {
    "missing": (None, "No notebook was found."),
    "empty": (b"", "The file is empty."),
    "blank": (b" \n", "The file is empty."),
    "not JSON": (b"def snapshot(x): pass", "The file is not JSON"),
    "truncated": (released().encode()[:5000], "cut off"),
    "a list": (b"[1, 2]", "no notebook"),
    "NaN": (b"NaN", "no notebook"),
    "some JSON": (b'{"a": 1}', "no notebook"),
    "cells are a dict": (b'{"nbformat": 4, "cells": {}}', "list of cells"),
    "worksheets are a number": (b'{"nbformat": 3, "worksheets": 3}', "list of cells"),
    "worksheets are numbers": (b'{"nbformat": 3, "worksheets": [3]}', "list of cells"),
    "too deep": (b"[" * 200_000, "nested"),
    "a long number": (b'{"nbformat": ' + b"9" * 6000 + b"}", "no notebook"),
    "a strange character where it breaks": (b'"' + b"\\ud800" * 3 + b'"', "no notebook"),
    "half a million keys": (b'{"a": {' + b'"a" : 1,' * 3_100_000 + b'"b": 1}}', "more values"),
    "millions of lists": (b'{"a": [' + b"[]," * 3_100_000 + b"1]}", "more values"),
    "a photo": (bytes(range(256)), "not in UTF-8"),
    "too many cells": (b'{"nbformat": 4, "cells": [' + b",".join([b"{}"] * 3000) + b"]}", "3000 cells"),
}


@pytest.mark.parametrize(("content", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_no_notebook_is_refused_with_the_reason(content, reason):
    with pytest.raises(Unreadable) as caught:
        read_cells(content)
    assert reason in str(caught.value)


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed():
    with pytest.raises(Unreadable, match="larger than the 1000 B that"):
        read_cells(b"{" * 2000, largest_bytes=1000)


def test_nan_in_an_output_does_no_harm():
    notebook = Notebook().solve()
    notebook.cell("case-run")["outputs"] = [{"data": float("nan")}]
    assert step(rebuilt(notebook), "snapshot").source == solutions()["snapshot"]


def test_of_keys_that_stand_twice_the_last_counts():
    content = Notebook().solve().bytes().decode().replace('"source":', '"source": 1, "source":')
    assert step(rebuilt(content.encode()), "snapshot").source == solutions()["snapshot"]


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_change_nothing(line_end):
    notebook = Notebook().solve()
    for cell in notebook.cells:
        cell["source"] = cell["source"].replace("\n", line_end)
    result = rebuilt(notebook)
    assert {name: step(result, name).source for name in solutions()} == solutions()
    assert result.repairs == []


def test_whatever_is_in_a_notebook_it_can_be_written_as_utf_8():
    notebook = Notebook().add("print('\ud800')", after="case").add("\udfff", after="case", kind="markdown")
    notebook.cell("snapshot")["source"] = "def snapshot(x):\n    return '\ud83d'"
    notebook.cell("mean_loss")["id"] = "\ud800"
    notebook.cell("written")["metadata"]["nbgrader"]["grade_id"] = "\ud800"
    notebook.cells[3]["cell_type"] = "\ud800"
    notebook.add("![](attachment:a)", after="case", kind="markdown", attachments={"\ud800": {"image/png": "AA=="}})
    notebook.data["nbformat"] = "\ud800"
    result = rebuilt(notebook)
    for text in (json.dumps(result.notebook, ensure_ascii=False), *result.repairs, *(s.label for s in result.steps)):
        text.encode("utf-8")
    assert "print('?')" in [part.source for part in added(result)]


def test_a_very_long_text_is_cut():
    notebook = Notebook().solve().add("x" * 2_000_000, after="case", kind="markdown")
    result = rebuilt(notebook)
    assert len(added(result)[0].source) == 2**20
    assert "Cell 4 has 2,000,000 characters; it was cut after 1,048,576." in result.repairs


# Outputs.


def test_outputs_are_kept_as_nbformat_knows_them():
    outputs = [
        {"output_type": "stream", "name": "stderr", "text": "ab\ud800"},
        {"output_type": "display_data", "data": {"image/png": "AA==\n", "text/plain": "fig", "text/html": "<b>"}},
        {"output_type": "other", "text": "x"},
    ]
    assert clean_outputs(outputs, 10_000) == [
        {"output_type": "stream", "name": "stderr", "text": "ab?"},
        {"output_type": "display_data", "data": {"image/png": "AA==\n", "text/plain": "fig"}, "metadata": {}},
    ]


def test_of_outputs_no_more_is_kept_than_there_is_room_for():
    stream = {"output_type": "stream", "name": "stdout", "text": "x" * 1000}
    kept = clean_outputs([stream] * 5, 2500)
    assert [output["text"] for output in kept] == ["x" * 1000] * 2 + ["[More was printed or shown, and left out]\n"]
    assert sum(len(str(output)) for output in clean_outputs([stream | {"text": "."}] * 100_000, 2000)) < 4000


ODD = [None, 1, True, 10**400, float("nan"), "\ud800", [], {}, [[[]]], [None], {"a": {}}, ["\ud800", 1], [["a"]]]


@pytest.mark.parametrize("kind", ["stream", "display_data", "execute_result", "error", None, "other", [], {}])
def test_no_shape_of_output_does_harm(kind):
    names = ("name", "text", "data", "metadata", "execution_count", "ename", "evalue", "traceback")
    outputs = [{"output_type": kind, **{name: value for name in names}} for value in ODD]
    outputs += [{"output_type": kind, "data": {name: value for name in ("image/png", "text/plain")}} for value in ODD]
    for value in (outputs, *ODD, ODD):
        json.dumps(clean_outputs(value, 100_000), ensure_ascii=False).encode("utf-8")


# However much there is, and however it is made.


N = 49_000
HOSTILE = {
    "brackets": "(" * N,
    "closed brackets": "(" * (N // 2) + ")" * (N // 2),
    "minus": "-" * N + "1",
    "attributes": "x" + ".a" * (N // 2),
    "calls": "x" + "()" * (N // 2),
    "sums": "1" + "+1" * (N // 2),
    "comparisons": "1" + "<1" * (N // 2) + "=3",
    "not": "not " * (N // 4) + "1",
    "lambda": "lambda: " * (N // 8) + "1",
    "conditions": "1 if 1 else " * (N // 12) + "1",
    "elif": "if a:\n b\n" + "elif a:\n b\n" * (N // 11),
    "blocks": "\n".join(" " * depth + "if 1:" for depth in range(300)),
    "comprehensions": "[a for a in " * (N // 12),
    "decorators": "@a\n" * (N // 3) + "def f(): pass",
    "f-strings": 'f"' + "{a}" * (N // 3) + '"',
    "formats": "f'" + "{a:{a}}" * (N // 7) + "'",
    "nested f-string": "f'{" * N,
    "minus in an f-string": 'f"{' + "-" * (N - 10) + '1}"',
    "an import": "import a" + ".a" * (N // 2),
    "a continued import": "import a" + "\\\n.\\\na" * (N // 6),
    "a number": "9" * N,
    "a float": "9" * N + ".0",
    "quotes": "'" * N,
    "hashes": "#" * N,
    "line quotes": '"\n' * (N // 2),
    "open text": "'''" + "\n" * N,
    "backslashes": "\\\n" * (N // 2),
    "spaces": " " * N + "pass",
    "blank lines": " \n" * (N // 2),
    "form feeds": "\f" * N,
    "null": "\x00",
    "nulls": "x = 1\x00\n" * 100,
    "surrogate": "\ud800",
    "magics": "%pwd\n" * (N // 5),
    "cell magics": "%%time\n" * (N // 7),
    "timed": "%time " * (N // 6),
    "commands": "!a\\\n" * (N // 4),
    "questions": "a?\n" * (N // 3),
    "prompts": ">>> a\n" * (N // 6),
    "dots": ("." + "a" * 490) * 98,
    "signs": "=" * N,
    "ligatures": "\ufb01\n" * (N // 2),
    "a mebibyte": "a.b" * 2**18,
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_code_that_breaks_parsers_is_only_code(source):
    notebook = Notebook().solve("mean_loss").write(snapshot=source).add(source, after="case")
    notebook.cell("snapshot-check")["source"] = f'lesson.check("snapshot", {source})'
    result = rebuilt(notebook)
    assert step(result, "mean_loss").source == solutions()["mean_loss"]
    assert not {"snapshot", "mean_loss"} & defined(source)


# What code defines and uses.


def test_names_that_a_cell_binds_are_seen():
    source = "import a.b\nfrom c import d as e\nf = g = 1\nfor h in i:\n    if j:\n        k, *l = m\n"
    source += "with n as o: pass\nclass P:\n    q = 1\n"
    assert defined(source) == {"a", "e", "f", "g", "h", "k", "l", "o", "P"}


def test_names_that_a_cell_looks_up_outside_are_seen():
    source = "import a\ndef f(x, y=z):\n    w = x\n    return [v for v in u] + w + a.b + len(x)\nt\n"
    assert uses(source) == {"z", "u", "t"}


def test_magics_do_not_hide_names():
    assert defined("%matplotlib inline\nx = 1\n!ls") >= {"x"}
    assert uses("%time y = model(x)") == uses("%time y = model(x)")

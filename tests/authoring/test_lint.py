"""Every rule of the lint, on a notebook that breaks it and on the same notebook mended."""

import copy

import nbformat
import pytest

from course_utils.authoring import cells
from course_utils.authoring.__main__ import main
from course_utils.authoring.build import build
from course_utils.authoring.files import dumps, read
from course_utils.authoring.lint import lint_course, lint_learner, lint_solution, report
from course_utils.authoring.rules_code import known_magics
from course_utils.authoring.rules_outputs import alternative_text, visible_text
from course_utils.base.files import write_whole


def by_id(notebook, id):
    return next(cell for cell in notebook.cells if cell.id == id)


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def drop(notebook, id):
    notebook.cells.remove(by_id(notebook, id))


def swap(notebook, one, other):
    at = [cell.id for cell in notebook.cells]
    i, j = at.index(one), at.index(other)
    notebook.cells[i], notebook.cells[j] = notebook.cells[j], notebook.cells[i]


def grading(**changes):
    return lambda cell: cell.metadata.nbgrader.update(changes)


def forget(key):
    return lambda cell: cell.metadata.nbgrader.pop(key)


def source(text):
    return lambda cell: cell.update(source=text)


def tagged(*tags):
    return lambda cell: cell.metadata.update(tags=list(tags))


def shows(*outputs):
    return lambda cell: cell.update(outputs=list(outputs))


def prints(text):
    return shows(stream(text))


def shows_html(text):
    return shows(nbformat.v4.new_output("display_data", data={"text/html": text, "text/plain": "card"}))


ERROR = nbformat.v4.new_output("error", ename="RuntimeError", evalue="no", traceback=[])
FIGURE = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}

# name of the case: (rule, id of the cell that is broken and reported, how)
CELL_CASES = {
    "duplicate grade id": ("grade-id", "predicted_edit", grading(grade_id="detach-snapshot")),
    "check in an ungraded cell": ("check-call", "case", source('lesson.check("snapshot", snapshot)')),
    "answer without a region": ("solution-region", "snapshot", source("def snapshot(x):\n    return x.clone()")),
    "region never closed": ("solution-region", "snapshot", source("### BEGIN SOLUTION\nsnapshot = 1")),
    "region in a plain cell": ("solution-region", "case", source("### BEGIN SOLUTION\nx = 1\n### END SOLUTION")),
    "marker misspelt": ("solution-region", "snapshot", source("# BEGIN SOLUTION\nx = 1\n# END SOLUTION")),
    "set-up without a lesson": ("setup", "setup", source("import torch")),
    "set-up of another lesson": ("setup", "setup", source('lesson = Lesson("no_grad")')),
    "set-up that does more": ("setup", "setup", source('lesson = Lesson("detach")\nx = torch.ones(3)')),
    "second lesson": ("setup", "case", source('lesson = Lesson("detach")')),
    "check ignored by nbval": ("hidden-from-nbval", "snapshot-check", tagged("nbval-ignore-output")),
    "check skipped by nbval": ("hidden-from-nbval", "snapshot-check", tagged("nbval-skip")),
    "answer may raise": ("hidden-from-nbval", "snapshot", tagged("raises-exception")),
    "answer ignored by a comment": (
        "hidden-from-nbval",
        "snapshot",
        lambda cell: cell.update(source="# NBVAL_IGNORE_OUTPUT\n" + cell.source),
    ),
    "26 lines": ("length", "case", source("\n".join(["x = 1"] * 26))),
    "a line of 107 characters": ("width", "case", source("x = 1\ny = " + "1" * 103)),
    "not Python": ("syntax", "case", source("def f(:\n    pass")),
    "a link to no lesson": ("link", "title", source("# 03 [detach](03_attach.ipynb)")),
    "a link to a page without https": ("link", "title", source("# 03 [detach](www.pytorch.org)")),
    "an issue that is no link": ("link", "title", source("# 03 detach, #3627")),
    "nothing to read on": ("read-on", "end", source("Next: [04](04_volatile_history.ipynb)")),
    "no next lesson": ("read-on", "end", source("Read [on](https://pytorch.org/docs).")),
    "a question that nobody marks": ("written", "question", source('Why? See `lesson.solution("written")`.')),
    "a question without a model answer": (
        "written",
        "question",
        source("### Written question · 2 points by hand, why?"),
    ),
    "a model answer without a scheme": ("written", "written", source("Because.")),
    "unknown line magic": ("magic", "case", source("%tiem draw()")),
    "unknown magic inside an assignment": ("magic", "case", source("x = %tiem draw()")),
    "unknown cell magic": ("magic", "case", source("%%timeti\ndraw()")),
    "script magic": ("magic", "case", source("%%bash\nls")),
    "no execution count": ("not-executed", "case", lambda cell: cell.update(execution_count=None)),
    "stderr": ("stderr", "case", shows(stream("UserWarning: no\n", "stderr"))),
    "stderr in a check": (
        "stderr",
        "snapshot-check",
        lambda cell: cell.outputs.append(stream("UserWarning: no\n", "stderr")),
    ),
    "error": ("error", "case", shows(ERROR)),
    "error promised and missing": ("error", "case", tagged("raises-exception")),
    "check without output": ("check-output", "snapshot-check", shows()),
    "check that lost points": (
        "check-output",
        "snapshot-check",
        lambda cell: cell.outputs[0].data.update({"text/plain": "3.5"}),
    ),
    "check without a card": ("check-output", "snapshot-check", lambda cell: cell.outputs[0].data.pop("text/html")),
    "address": ("not-comparable", "case", prints("<ExpBackward0 object at 0x7f3a5c0b1d90>")),
    "address inside an HTML tag": ("not-comparable", "case", shows_html('<svg id="g0x7f3a5c0b1d90"></svg>')),
    "random id": ("not-comparable", "case", shows_html('<p id="1b4e28ba-2fa1-11d2-883f-0016d3cca427"></p>')),
    "process id": ("not-comparable", "case", prints("worker pid: 4711")),
    "kernel's file": ("not-comparable", "case", prints("ipykernel_4711/123.py")),
    "path": ("not-comparable", "case", prints("stored in /home/ada/.local/progress")),
    "time": ("not-comparable", "case", prints("took 1.25 ms")),
    "time without a space": ("not-comparable", "case", prints("took 3s")),
    "time in a card": ("not-comparable", "case", shows_html("<p>took <b>12.3 s</b></p>")),
    "time of day": ("not-comparable", "case", prints("at 12:30:05")),
    "date": ("not-comparable", "case", prints("on 2024-02-29")),
    "SVG": (
        "not-comparable",
        "case",
        shows(nbformat.v4.new_output("display_data", data={"image/svg+xml": "<svg/>", "text/plain": "x"})),
    ),
    "large output": ("size", "case", prints("x" * 150 * 1024)),
    "figure without words": ("alternative-text", "figure", shows(nbformat.v4.new_output("display_data", data=FIGURE))),
}
# name of the case: (rule, id of the cell that is reported or None for the whole notebook, how the notebook is broken)
NOTEBOOK_CASES = {
    "duplicate cell id": ("cell-id", "title", lambda nb: nb.cells.append(cells.markdown("x", "title"))),
    "field that the format lacks": ("format", None, lambda nb: by_id(nb, "figure").outputs[0].pop("metadata")),
    "cells run out of order": ("not-executed", None, lambda nb: by_id(nb, "case").update(execution_count=9)),
    "large notebook": ("size", None, lambda nb: by_id(nb, "title").update(source="x" * 700 * 1024)),
}


def lint(notebook, folder, questions=frozenset()):
    return lint_solution(write_whole(folder / "03_detach.ipynb", dumps(notebook)), questions=questions)


def test_a_good_notebook_has_no_problem(solution, tmp_path):
    assert lint(solution, tmp_path) == []


@pytest.mark.parametrize("case", CELL_CASES)
def test_a_broken_cell_is_named_and_the_mended_one_passes(case, solution, tmp_path):
    rule, id, break_it = CELL_CASES[case]
    mended = copy.deepcopy(solution)
    break_it(by_id(solution, id))

    found = [problem for problem in lint(solution, tmp_path) if (problem.rule, problem.cell_id) == (rule, id)]

    assert found, report(lint(solution, tmp_path))
    number = [cell.id for cell in solution.cells].index(id) + 1
    assert found[0].cell_number == number
    assert found[0].first_line and found[0].first_line in by_id(solution, id).source
    assert found[0].what and found[0].mend
    assert lint(mended, tmp_path) == []


@pytest.mark.parametrize("case", NOTEBOOK_CASES)
def test_a_broken_notebook_is_named_and_the_mended_one_passes(case, solution, tmp_path):
    rule, id, break_it = NOTEBOOK_CASES[case]
    mended = copy.deepcopy(solution)
    break_it(solution)

    found = [problem for problem in lint(solution, tmp_path) if (problem.rule, problem.cell_id) == (rule, id or "")]

    assert found, report(lint(solution, tmp_path))
    assert lint(mended, tmp_path) == []


def test_a_cell_without_id_is_named(solution, tmp_path):
    del by_id(solution, "case")["id"]
    assert [(p.rule, p.cell_number) for p in lint(solution, tmp_path)] == [("cell-id", 3)]


@pytest.mark.parametrize(
    ("minutes", "opening", "problems"),
    [
        ((15,), "15 minutes", 0),
        ((10, 5), "Plan two sittings, of 10 and\n5 minutes.", 0),
        ((15,), "An hour", 1),
        ((10, 5), "15 minutes", 1),
    ],
)
def test_a_lesson_says_how_long_its_sittings_are(minutes, opening, problems, solution, tmp_path):
    by_id(solution, "title").source = f"# 03 detach\n\n{opening}"
    path = write_whole(tmp_path / "03_detach.ipynb", dumps(solution))
    found = lint_solution(path, questions=frozenset(), minutes=minutes)
    assert [problem.rule for problem in found] == ["time"] * problems, report(found)


@pytest.mark.parametrize(
    ("told", "shown", "refused"),
    [
        ("it fell to 0.29", "loss 0.2853", False),
        ("it fell to 0.29", "loss 0.3853", True),
        ("all 1,024 rows", "1024 rows", False),
        ("35 of 200", "35 of 450", True),
        ("the 7 others", "", False),
        ("line 45, in PyTorch 0.3, in 2024, lesson 03", "", False),
        ("`x[128]` of 120 + 16 = 136", "136", False),
        ("**Now change this.** It prints 99.", "", False),
        ("### Exercise 3.1 · snapshot\n\nUp to 100 steps.", "", False),
    ],
)
def test_a_number_in_prose_is_shown_by_a_cell_near_it(told, shown, refused, solution, tmp_path):
    solution.cells += [cells.markdown(told, "told"), cells.code("print(text)", "shown")]
    solution.cells[-1].outputs = [stream(shown)]
    path = write_whole(tmp_path / "03_detach.ipynb", dumps(solution))
    found = [p for p in lint_solution(path, questions=frozenset()) if p.rule == "number"]
    assert [problem.cell_id for problem in found] == ["told"] * refused


@pytest.mark.parametrize(("minutes", "refused"), [(52, False), (54, True)])
def test_a_sitting_is_not_longer_than_it_may_be(minutes, refused, solution, tmp_path):
    by_id(solution, "title").source = "# 03 detach\n\nPlan two sittings, of 5 and 5 minutes."
    text = "*Your second sitting begins here; it takes 5 minutes.*"
    solution.cells.append(cells.markdown(f"{text}{' word' * (110 * minutes - len(text.split()) - 6)}", "break"))
    solution.cells.append(cells.markdown("Now change this: the number below.", "own"))
    path = write_whole(tmp_path / "03_detach.ipynb", dumps(solution))
    found = [p for p in lint_solution(path, questions=frozenset(), minutes=(5, 5)) if p.rule == "time"]
    assert [(problem.cell_id, problem.what[:49]) for problem in found] == [
        ("break", "The sitting that begins here takes 54 minutes; 52")
    ] * refused


def test_what_nbval_does_not_compare_may_vary(solution, tmp_path):
    tagged("nbval-ignore-output")(by_id(solution, "case"))
    prints("took 1.25 ms at 0x7f3a5c0b1d90")(by_id(solution, "case"))
    by_id(solution, "figure").outputs[0].data["image/png"] = "0x7f3a5c0b1d90"
    assert lint(solution, tmp_path) == []


def test_a_promised_error_may_be_stored(solution, tmp_path):
    tagged("raises-exception")(by_id(solution, "case"))
    shows(ERROR)(by_id(solution, "case"))
    assert lint(solution, tmp_path) == []


def test_stripped_outputs_are_refused(solution, tmp_path):
    # nbval compares nothing here and passes, see tests/test_notebook_runs.py.
    for cell in solution.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    problems = lint(solution, tmp_path)
    assert [problem.rule for problem in problems] == ["not-executed", "check-output", "check-output"]
    assert "nbval would compare nothing" in problems[0].what


def test_a_file_that_is_no_notebook_is_one_problem(tmp_path):
    path = tmp_path / "03_detach.ipynb"
    for text in ("", "{", "[]", '{"nbformat": 3}', '{"nbformat": 4, "cells": [3]}'):
        path.write_text(text)
        assert [problem.rule for problem in lint_solution(path)] == ["unreadable"]
        assert [problem.rule for problem in lint_learner(path)] == ["unreadable"]


def test_a_built_learner_notebook_has_no_problem(course):
    (learner,) = build(course)
    assert lint_learner(learner, course.solutions / learner.name) == []


@pytest.mark.parametrize(
    ("rule", "id", "break_it"),
    [
        ("learner-output", "case", prints("4 batches")),
        ("learner-output", "case", lambda cell: cell.update(execution_count=1)),
        ("solution-shown", "snapshot", source("def snapshot(x):\n        return x.detach().clone()")),
        ("solution-shown", "case", source("# ### BEGIN SOLUTION")),
        ("solution-shown", "written", source("Because `total` holds every batch's graph.")),
        ("syntax", "snapshot", source("def snapshot(x):\n# Your answer here.")),
    ],
)
def test_a_broken_learner_notebook_is_named(rule, id, break_it, course):
    (learner,) = build(course)
    notebook = read(learner)
    break_it(by_id(notebook, id))
    write_whole(learner, dumps(notebook))
    problems = lint_learner(learner, course.solutions / learner.name)
    assert (rule, id) in [(problem.rule, problem.cell_id) for problem in problems]


def test_the_course_is_linted_as_a_whole(course, solution):
    (learner,) = build(course)
    notebook = read(learner)
    prints("4")(by_id(notebook, "case"))
    write_whole(learner, dumps(notebook))
    write_whole(course.solutions / "77_unknown.ipynb", dumps(solution))

    problems = lint_course(course)

    assert {(p.notebook, p.rule) for p in problems} >= {
        ("notebooks/solutions/77_unknown.ipynb", "catalogue"),
        ("notebooks/03_detach.ipynb", "learner-output"),
    }
    assert not [problem for problem in problems if problem.notebook == "notebooks/solutions/03_detach.ipynb"]
    assert lint_course(course, ["03_detach"]) == [p for p in problems if "03_" in p.notebook]


def test_the_command_lists_every_problem_and_fails(course, solution, capsys):
    prints("took 3 ms at 0x7f3a5c0b1d90")(by_id(solution, "case"))
    write_whole(course.solutions / "03_detach.ipynb", dumps(solution))

    assert main(["--course", str(course.root), "lint"]) == 1

    said = capsys.readouterr().err
    place = 'notebooks/solutions/03_detach.ipynb, cell 3 (id case): print("4 batches, 16 bytes each")'
    assert said.count(place) == 2
    assert "The output holds an address, which differs from run to run: 0x7f3a5c0b1d90" in said
    assert "Mend: show something that stays the same, or tag the cell nbval-ignore-output." in said
    assert said.endswith("2 problems.\n")


def test_the_command_passes_a_good_course(course, capsys):
    assert main(["--course", str(course.root), "lint"]) == 0


def test_alternative_text_is_found_in_both_places():
    output = nbformat.v4.new_output("display_data", data=dict(FIGURE))
    assert alternative_text(output) == ""
    output.metadata["image/png"] = {"alt": " "}
    assert alternative_text(output) == ""
    output.data["text/html"] = '<img src="data:," alt="">'
    assert alternative_text(output) == ""
    output.data["text/html"] = "<img src='data:,' alt='bytes &amp; time'>"
    assert alternative_text(output) == "bytes & time"
    output.metadata["image/png"] = {"alt": "A line"}
    assert alternative_text(output) == "A line"


def test_visible_text_is_what_a_reader_sees():
    assert visible_text("<style>p { top: 2s }</style><p title='3 s'>4 &lt; 5 s</p>").split() == ["4", "<", "5", "s"]


def test_ipythons_magics_are_known_and_others_are_not():
    assert {"time", "timeit", "matplotlib", "load_ext"} <= known_magics("line")
    assert {"time", "timeit", "capture", "memory"} <= known_magics("cell")
    assert "bash" not in known_magics("cell") and "memory" not in known_magics("line")


def test_a_prediction_and_what_is_said_to_wrong_guesses_belong_together(tmp_path, solution):
    by_id(solution, "case").source = 'lesson.predict("How many?", ..., 4)\nlesson.predict(f"{1}?", ..., 4)'
    path = cells.write(solution, tmp_path / "03_detach.ipynb")
    problems = [p for p in lint_solution(path, questions={"How many?", "Who?"}) if p.rule == "prediction"]
    assert [problem.what for problem in problems] == [
        "Nothing asks 'Who?'.",
        "Who guesses '(no plain text)' wrong is told nothing.",
    ]


def test_a_lesson_has_at_most_65_cells(tmp_path, solution):
    solution.cells[1:1] = [cells.markdown("More.", f"more-{number}") for number in range(60)]
    path = cells.write(solution, tmp_path / "03_detach.ipynb")
    assert "The lesson has 74 cells" in report(lint_solution(path, questions=frozenset()))


@pytest.mark.parametrize(("before", "refused"), [(5, False), (6, True)])
def test_the_learner_writes_something_before_long(before, refused, tmp_path, solution):
    solution.cells[1:1] = [cells.markdown("More.", f"more-{number}") for number in range(before)]  # the answer was 7th
    path = cells.write(solution, tmp_path / "03_detach.ipynb")
    assert [p.cell_id for p in lint_solution(path, questions=frozenset())] == ["title"] * refused


@pytest.mark.parametrize(
    ("source", "is_own"),
    [
        ("#### Now change this\n\nThe seed.", True),
        ("**Now change this.** The seed.", True),
        ("You may now change this.", False),
    ],
)
def test_now_change_this_is_something_to_write(source, is_own, tmp_path, solution):
    more = [cells.markdown("More.", f"more-{number}") for number in range(11)]
    solution.cells[1:1] = [*more[:10], cells.markdown(source, "own"), *more[10:]]
    path = cells.write(solution, tmp_path / "03_detach.ipynb")
    assert [p.rule for p in lint_solution(path, questions=frozenset())] == ["passive"] * (not is_own)

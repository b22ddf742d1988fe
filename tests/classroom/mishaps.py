"""What happens to honest notebooks (``MISHAPS``), answers that fail, and files that are none (``UNREADABLE``).

Each notebook of ``MISHAPS`` holds several mishaps, one for each exercise, and loses no point by any of them.
"""

import re

from tests.classroom.handed_in import MODES, WRITTEN, Notebook, released, solutions
from tests.classroom.students import BLANK, HELD, Student, edited

RIGHT = solutions()
STUBS = {name: Notebook().cell(name)["source"] for name in (*RIGHT, "written")}
QUESTION = Notebook().cell("written-text")["source"]


def splits_and_merges(notebook):
    notebook.write(snapshot="cut = torch.Tensor.detach\n\ndef snapshot(x):\n    return cut(x).clone()")
    notebook.split("snapshot", "def snapshot", id="part-1").split("truncated_bptt", "    return", id="part-2")
    notebook.merge("mean_loss", "mean_loss-check", active="mean_loss", id="merged-1")
    notebook.merge("stop_gradient_round-text", "stop_gradient_round", active="stop_gradient_round", id="merged-2")
    notebook.merge("written-text", "written", active="written-text", id="merged-3")
    notebook.split("three-run", "    total = 0", id="part-3")


def copies_and_moves(notebook):
    notebook.paste("snapshot", "snapshot", "def snapshot(x):\n    return x", id="copy-1").move("mean_loss", "end")
    # Cut and pasted: the original may not be deleted and stays, a stub again, and the pasted one has another id.
    notebook.paste("predicted_edit", "case-run", id="copy-2").write(predicted_edit=STUBS["predicted_edit"])
    notebook.add(RIGHT["truncated_bptt"], "truncated_bptt-check").remove("truncated_bptt")
    notebook.paste("stop_gradient_round", "case", STUBS["stop_gradient_round"], id="copy-3")
    notebook.paste("snapshot-check", "snapshot-check", id="copy-4").add(STUBS["mean_loss"], "mean_loss-text")
    notebook.write(written=STUBS["written"]).add(WRITTEN, "written", "markdown")


def retypes_and_relabels(notebook):
    notebook.retype("snapshot", "markdown").retype("mean_loss", "raw").retype("written", "code")
    notebook.write(written=f"# {WRITTEN}")
    grading = {name: notebook.cell(name)["metadata"]["nbgrader"] for name in (*RIGHT, "snapshot-check")}
    grading["snapshot-check"] |= {"points": 100, "grade_id": "something-else", "grade": False, "locked": False}
    grading["predicted_edit"]["grade_id"] = "detach-snapshot"
    grading["truncated_bptt"]["schema_version"] = 4
    del grading["stop_gradient_round"]["grade_id"]


def loses_everything_but_sources(notebook):
    for cell in notebook.cells:
        cell.pop("id")
        cell["metadata"] = {}
    notebook.data["metadata"] = {}
    notebook.cells.reverse()


def deletes_and_edits(notebook):
    notebook.write(snapshot="def snapshot(x):\n    return copied(x.detach())")
    notebook.cell("setup")["source"] += "\nfrom copy import deepcopy as copied"
    notebook.cell("snapshot-check")["source"] = "1.0"
    notebook.cell("mean_loss-check")["source"] += "\nprint('done')"
    notebook.cell("truncated_bptt-check")["source"] = f"# {notebook.cell('truncated_bptt-check')['source']}"
    notebook.remove("predicted_edit-check", "three-run", "written", "title")
    notebook.cell("written-text")["source"] += f"\n\n**Answer.** {WRITTEN}"


def puts_two_into_one(notebook):
    notebook.merge("mean_loss", "truncated_bptt", active="mean_loss")
    notebook.retype("snapshot-text", "code").write(**{"snapshot-text": RIGHT["snapshot"], "snapshot": ""})
    notebook.write(written=STUBS["written"])
    notebook.add("every graph alive.", "written", "markdown").add("It keeps", "written", "raw")


def holds_strange_cells(notebook):
    notebook.write(written=STUBS["written"]).add(f'"""{WRITTEN}"""', "written")
    notebook.cell("snapshot")["cell_type"] = "unknown"
    notebook.cell("mean_loss")["source"] = [RIGHT["mean_loss"], 3, None]
    notebook.cell("truncated_bptt")["id"] = notebook.cells[3]["cell_type"] = notebook.data["nbformat"] = "\ud800"
    notebook.cell("case-run")["outputs"] = [{"data": float("nan")}, [], "text", {"output_type": {}}]
    notebook.add("print('\ud800')", "case").add("\udfff", "case", "markdown").add("x" * 2_000_000, "case", "raw")
    notebook.cells.extend([3, {"cell_type": "code", "source": 7}, {}])


def writes_far_from_the_question(notebook):
    notebook.write(written=STUBS["written"]).add("See: it keeps the graph.", "case", "markdown")


N = 49_000
HOSTILE = (
    *("(" * N, "(" * (N // 2) + ")" * (N // 2), "-" * N + "1", "x" + ".a" * (N // 2), "x" + "()" * (N // 2)),
    *("1" + "+1" * (N // 2), "1" + "<1" * (N // 2), "not " * (N // 4) + "1", "lambda: " * (N // 8) + "1"),
    *("if a:\n b\n" + "elif a:\n b\n" * (N // 11), "\n".join(" " * depth + "if 1:" for depth in range(300))),
    *("[a for a in " * (N // 12), "@a\n" * (N // 3) + "def f(): pass", 'f"' + "{a}" * (N // 3) + '"', "f'{" * N),
    *("import a" + ".a" * (N // 2), "9" * N, "9" * N + ".0", "'" * N, '"\n' * (N // 2), "'''" + "\n" * N),
    *("\\\n" * (N // 2), " " * N + "pass", "\f" * N, "\x00", "x = 1\x00\n" * 100, "\ud800", ">>> a\n" * (N // 6)),
    *("=" * N, "\ufb01\n" * (N // 2), "a.b" * 2**18, "x = '''" + "%pwd\n" * 1_000_000 + "'''"),
)
# At these IPython works until the cell's seconds are over.
LONG_WORK = (*("%pwd\n" * 600, "%%time\n" * (N // 7), "%time " * (N // 6), "!a\\\n" * (N // 4), "a?\n" * (N // 3)),)


def breaks_parsers(notebook):
    for source in (*HOSTILE, LONG_WORK[0]):
        notebook.add(source, "stop-zero")
    notebook.cell("snapshot-check")["source"] = f'lesson.check("snapshot", {HOSTILE[0]})'


def keeps_parsers_busy(notebook):
    for source in LONG_WORK:
        notebook.add(source, "stop-zero")


def has_too_many_cells(notebook):
    for place in range(1000):
        notebook.add(f"x{place} = {place}", "stop-zero")


FILES = {"copies_and_moves": "detach final (2).ipynb"}


def _mishap(happens):
    extra = {"torch.py": b"raise SystemExit(1)"} if happens.__name__ in FILES else {}
    return edited(happens.__name__.replace("_", "-"), happens, file=FILES.get(happens.__name__, ""), extra=extra)


MISHAPS = [
    _mishap(happens)
    for happens in (
        *(splits_and_merges, copies_and_moves, retypes_and_relabels, loses_everything_but_sources, deletes_and_edits),
        *(puts_two_into_one, holds_strange_cells, writes_far_from_the_question, breaks_parsers, has_too_many_cells),
        keeps_parsers_busy,
    )
]

# ------------------------------------------------------------------------------------------------ answers that are none

NONE = Notebook().write(snapshot="\n", mean_loss="").remove("truncated_bptt")
NONE.paste("stop_gradient_round", "case").add(QUESTION, "case", "markdown").add("x = 1  # a comment", "case")
NONE.cell("snapshot-check")["source"] = '# lesson.check("snapshot", snapshot)'
FAILING = Notebook().write(
    snapshot="def snapshot(x):\n    return x.nope",
    predicted_edit="predicted_edit = {'detach_edit': '\ud800', '\udfff': 1, 'data_edit': [[]]}",
    mean_loss="def mean_loss(x:\n    return x",
    truncated_bptt="truncated_bptt = input()",
    stop_gradient_round="def stop_gradient_round(x):\n    quit()",
)
LONG = """
class Long(Exception):
    def __repr__(self):
        return 'x' * 10**8
    __str__ = __repr__
Long.__name__ = 'x' * 10**6
def stop_gradient_round(x):
    print('x' * 10**8)
    display(Long())
    raise Long()
"""
ENDING = Notebook().solve("predicted_edit")
ENDING.write(
    snapshot="def snapshot(x):\n    while True:\n        pass",
    mean_loss="import os, signal\ndef mean_loss(*given):\n    os.kill(os.getpid(), signal.SIGKILL)",
    truncated_bptt="import time\ntime.sleep(10**6)",
    stop_gradient_round=LONG,
)
TAKING = Notebook().solve("predicted_edit")
TAKING.write(
    snapshot="def snapshot(x):\n    return bytearray(50 * 2**30)",
    mean_loss="import _thread, time\ndef mean_loss(*given):\n    while True:\n"
    "        _thread.start_new_thread(time.sleep, (60,))",
    truncated_bptt="import os\ndef truncated_bptt(*given):\n    while True:\n        os.fork()",
    stop_gradient_round="import sys\ndef stop_gradient_round(*n):\n    sys.setrecursionlimit(10**9)\n"
    "    return sorted([n], key=lambda n: stop_gradient_round(n))",
)
HANGING = Notebook().solve("predicted_edit")
HANGING.write(
    snapshot="import os, signal\ndef snapshot(x):\n    os.kill(os.getpid(), signal.SIGSTOP)",
    mean_loss="import os\ndef mean_loss(*given):\n    [os.kill(pid, 9) for pid in (os.getppid(), 1, 2, 0, -1)]",
    truncated_bptt="import os\nos._exit(0)",
    stop_gradient_round="class Never:\n    @property\n    def __class__(self):\n        while True:\n            pass\n"
    "stop_gradient_round = Never()",
)
BAD = dict.fromkeys(RIGHT, ("raised or killed or timed out or wrong", 0.0)) | {"predicted_edit": ("passed", 2.0)}
RAISED = dict.fromkeys(RIGHT, ("raised", 0.0)) | {"predicted_edit": ("wrong", 0.0)}
NO_ANSWERS = [
    Student("answers-nothing", NONE.bytes(), dict.fromkeys([*RIGHT, "detach-written"], (BLANK, 0.0))),
    Student("answers-that-raise", FAILING.bytes(), RAISED),
    Student("answers-that-do-not-end", ENDING.bytes(), {
        **{"snapshot": ("timed out", 0.0), "mean_loss": ("killed", 0.0), "truncated_bptt": ("timed out", 0.0)},
        "stop_gradient_round": ("raised or timed out", 0.0)}),
    Student("answers-that-take-all", TAKING.bytes(), BAD),
    Student("answers-that-hang", HANGING.bytes(), BAD),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------- files that are none

UNREADABLE = {
    "hands-in-nothing": (None, "No notebook was found."),
    "empty-file": (b"", "The file is empty."),
    "not-json": (b"def snapshot(x): pass", "The file is not JSON"),
    "cut-off": (Notebook().solve().bytes()[:5000], "cut off"),
    "a-list": (b"[1, 2]", "no notebook"),
    "no-number": (b"NaN", "no notebook"),
    "cells-are-a-dict": (b'{"nbformat": 4, "cells": {}}', "list of cells"),
    "too-deep": (b"[" * 200_000, "nested"),
    "a-long-number": (b'{"nbformat": ' + b"9" * 6000 + b"}", "no notebook"),
    "half-a-million-keys": (b'{"a": {' + b'"a" : 1,' * 600_000 + b'"b": 1}}', "values|no notebook"),
    "a-photo": (bytes(range(256)), "not in UTF-8"),
    "too-many-cells": (b'{"nbformat": 4, "cells": [' + b",".join([b"{}"] * 3000) + b"]}", "3000 cells"),
    "too-large": (b'{"cells": [' + b" " * (33 * 2**20), "larger than"),
    "another-lesson": (Notebook(MODES).solve().bytes(), "the notebook of another assignment"),
}
NOT_READ = [
    Student(name, content, dict.fromkeys([*RIGHT, "detach-written"], ("unreadable", 0.0)),
        extra={"notes.txt": b"I could not upload it."} if content is None else {})
    for name, (content, _) in UNREADABLE.items()
]  # fmt: skip
# What is odd in a notebook's JSON and harms nobody: a key that stands twice.
TWICE = re.sub(r'"source":', '"source": 1, "source":', Notebook().solve().bytes().decode())
MISHAPS.append(Student("names-its-keys-twice", TWICE.encode(), HELD))
MISHAPS.append(Student("as-released", released().encode(), dict.fromkeys([*RIGHT, "detach-written"], (BLANK, 0.0))))

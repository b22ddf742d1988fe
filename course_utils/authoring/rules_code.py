"""Rules about the code in the cells: the set-up, what hides a cell from nbval, length, syntax, magics (``RULES``)."""

import ast
import re
from collections.abc import Iterator

from course_utils.authoring.derive import BEGIN, END
from course_utils.authoring.problems import Cell, Notebook, Problem

MAX_CODE_LINES = 25
MAX_CODE_COLUMNS = 106  # what JupyterLab shows of a line in a window 1280 pixels wide
COURSE_MAGICS = frozenset({"memory"})  # cell magics that course_utils brings along
# Tags and comments that make nbval compare less; on a graded cell they would hide that a solution stopped scoring.
HIDING_TAGS = ("nbval-ignore-output", "nbval-raises-exception", "nbval-skip", "raises-exception")
HIDING_COMMENT = re.compile(r"^\s*#+\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)


def setup_cell(notebook: Notebook) -> Iterator[Problem]:
    """The first code cell is the set-up: imports and ``lesson = Lesson(...)``, perhaps a seed, nothing else."""
    call = f'lesson = Lesson("{notebook.topic}")'
    mend = f"let the first code cell hold the imports and {call}, and no other cell call Lesson."
    first = notebook.code[0] if notebook.code else None
    if first is None or call not in [ast.unparse(line).replace("'", '"') for line in _statements(first)]:
        yield notebook.problem("setup", "The first code cell does not make the lesson.", mend, first)
    else:
        for text in besides_setting_up(first, notebook.topic):
            yield notebook.problem("setup", f"The set-up cell does more than set up: {text}", mend, first)
    for cell in notebook.code[1:]:
        if re.search(r"(?<![\w.])Lesson\(", cell.source):
            yield notebook.problem("setup", "A second cell makes a lesson.", mend, cell)


def besides_setting_up(cell: Cell, topic: str) -> list[str]:
    """What a cell does besides importing, making the lesson and setting a seed: its statements, as text."""
    texts = [ast.unparse(line) for line in _statements(cell) if not isinstance(line, (ast.Import, ast.ImportFrom))]
    sets_up = (f'lesson = Lesson("{topic}")', "torch.manual_seed(")
    return [text for text in texts if not text.replace("'", '"').startswith(sets_up)]


def _statements(cell: Cell) -> list[ast.stmt]:
    return cell.tree.body if cell.tree else []


def hiding_tags(notebook: Notebook) -> Iterator[Problem]:
    """Nothing on a graded cell keeps nbval from comparing it."""
    for cell in notebook.code:
        if cell.is_answer or cell.is_check:
            found = [tag for tag in cell.tags if tag in HIDING_TAGS] + HIDING_COMMENT.findall(cell.source)
            if found:
                what = (
                    f"The graded cell says {', '.join(found)}, so nbval would not see a solution that stopped scoring."
                )
                yield notebook.problem("hidden-from-nbval", what, "take it off, and make the output comparable.", cell)


def code_reads(notebook: Notebook) -> Iterator[Problem]:
    """Code cells are short, are Python, and use magics that exist."""
    for cell in notebook.code:
        lines = [line for line in cell.source.splitlines() if line.strip() and line.strip() not in (BEGIN, END)]
        if len(lines) > MAX_CODE_LINES:
            what = f"The cell has {len(lines)} lines of code; {MAX_CODE_LINES} is the most a reader can hold."
            yield notebook.problem("length", what, "split the cell, or move the helper into course_utils.", cell)
        for line in lines:
            if len(line) > MAX_CODE_COLUMNS:
                what = f"A line has {len(line)} characters; a laptop's screen shows {MAX_CODE_COLUMNS}: {line.strip()}"
                yield notebook.problem("width", what, "break the line.", cell)
        if cell.tree is None:
            yield notebook.problem("syntax", "The cell is not Python.", "mend the syntax.", cell)
            continue
        for kind, name in _magics(cell.tree):
            if name not in known_magics(kind):
                what = (
                    f"The {kind} magic {name} does not exist. The rest of such a cell never runs, and nothing fails: "
                    "IPython only writes to stderr."
                )
                yield notebook.problem(
                    "magic", what, "mend its name; script magics need a program that others lack.", cell
                )


def _magics(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            kind = {"run_line_magic": "line", "run_cell_magic": "cell"}.get(node.func.attr)
            if kind and node.args and isinstance(node.args[0], ast.Constant):
                yield kind, str(node.args[0].value)


def known_magics(kind: str) -> set[str]:
    """The names of IPython's and ipykernel's magics, ``"line"`` or ``"cell"``, and the course's own.

    Script magics such as ``%%bash`` are left out: they work only where that program is installed.
    """
    from ipykernel.zmqshell import KernelMagics
    from IPython.core import magics

    classes = [getattr(magics, name) for name in dir(magics)] + [KernelMagics]
    known = set(COURSE_MAGICS) if kind == "cell" else set()
    for found in classes:
        registered = getattr(found, "magics", None)
        if isinstance(found, type) and isinstance(registered, dict):
            known.update(registered.get(kind, {}))
    return known


RULES = (setup_cell, hiding_tags, code_reads)

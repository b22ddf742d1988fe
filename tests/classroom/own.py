"""An assignment of a teacher's own, ``hw1``: no lesson, plain asserts, hidden tests, a mark by a number."""

from course_utils.authoring import cells
from course_utils.authoring.files import dumps

HW1 = "hw1"
STUB = "### BEGIN SOLUTION\n    return {}\n    ### END SOLUTION"
HIDDEN = "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"


def graded(source, name, **flags):
    cell = cells.code(source, name) if flags.pop("kind", "code") == "code" else cells.markdown(source, name)
    cell.metadata["nbgrader"] = {
        **{"schema_version": 3, "grade_id": name, "grade": False, "solution": False, "locked": False},
        **flags,
    }
    return cell


def answer(name, result):
    return graded(f"def {name}(x):\n    {STUB.format(result)}", name, solution=True)


def check(name, source, points):
    return graded(source, name, grade=True, locked=True, points=points)


def hw1():
    """The source notebook. Its import cell is as JupyterLab makes one: neither locked nor graded."""
    hidden = HIDDEN.format("assert halve(torch.tensor(7.0)) == 3.5, 'seven is odd'")
    return cells.notebook(
        [
            cells.markdown("# Homework 1", "title"),
            cells.code("import torch", "imports"),
            answer("double", "2 * x"),
            check("double-check", "assert double(2) == 4\nassert double(-1) == -2", 4),
            answer("halve", "x / 2"),
            check("halve-check", f"assert halve(torch.tensor(4.0)) == 2\n{hidden}", 2),
            answer("near", "3.0"),
            check("near-check", "max(0.0, 2.0 - abs(near(0) - 3))", 2),
            graded("Because.", "why", kind="markdown", solution=True, grade=True, points=3),
        ]
    )


def put_source(teacher, notebook=None, assignment=HW1):
    path = teacher.notebook("source", assignment)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(notebook or hw1()), encoding="utf-8")

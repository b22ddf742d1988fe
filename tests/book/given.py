"""What a site may not show: the lines that only the solutions have (``secrets``)."""

import re
from collections.abc import Iterator
from pathlib import Path

from course_utils.authoring.cells import solution_lines
from course_utils.authoring.files import Course, read

ROOT = Path(__file__).resolve().parents[2]
COURSE = Course(ROOT)
SHORTEST = 20  # what is shorter, such as `return 2 * x`, stands by chance in other places too


def squeezed(text: str) -> str:
    """The text without spaces and line ends, and without the marks and quotes that Markdown has and HTML has not."""
    return re.sub(r"[\s`*'\"\u2018\u2019\u201c\u201d-]", "", text)


def secrets() -> Iterator[tuple[str, str]]:
    """Each line of a solution and each paragraph of a model answer, squeezed, after the place that it comes from."""
    scripts = (ROOT / "course_utils" / "clinic" / "scripts").glob("*.py")  # lesson 11 shows them
    shown = [*COURSE.learners.glob("*.ipynb"), *(ROOT / "notebooks" / "further").glob("*.ipynb")]
    learners = (cell.source for path in shown for cell in read(path).cells)
    known = squeezed("".join([*learners, *(path.read_text(encoding="utf-8") for path in scripts)]))
    for path in COURSE.solution_paths():
        for cell in read(path).cells:
            lines = solution_lines(cell)
            whole = "\n".join(lines)
            parts = [*lines, whole] if cell.cell_type == "code" else whole.split("\n\n")
            for part in map(squeezed, parts):
                if len(part) >= SHORTEST and part not in known:
                    yield f"{path.stem}, {cell.id}", part

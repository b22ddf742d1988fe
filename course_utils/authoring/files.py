"""Notebook files on disk: find them (``Course``), read one as it lies there (``read``), bring it into the form in
which it is kept (``normalised``), and write it whole or not at all (``write``).

Reading repairs nothing. ``nbformat.read`` gives a cell without an id a random one, so what is built from such a file
would differ from build to build; here the missing id stays visible until somebody mends it.
"""

import copy
import json
import re
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_utils.base import explain
from course_utils.base.files import write_whole

# What Jupyter adds to these (the interpreter's version, the name that a user gave the kernel) differs from author to
# author, and would make every save a change.
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}
CELL_METADATA = ("nbgrader", "tags")  # anything else is a front end's memory: collapsed, scrolled, execution times


class Course:
    """A course's folder, and where in it lie the notebooks of learners, their solutions, what goes on from lessons
    (ungraded, the same files for authors and learners), nbgrader's settings, the catalogue and README.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.learners = root, root / "notebooks"
        self.solutions, self.further = self.learners / "solutions", self.learners / "further"
        self.config, self.readme = root / "nbgrader_config.py", root / "README.md"
        self.catalogue = root / "course_utils" / "catalogue.py"

    @classmethod
    def containing(cls, start: Path) -> "Course":
        """The course that ``start`` lies in.

        Raises:
            ValueError: neither ``start`` nor a folder above it holds ``notebooks/solutions``.
        """
        for folder in (start.resolve(), *start.resolve().parents):
            if (folder / "notebooks" / "solutions").is_dir():
                return cls(folder)
        did = f"A course was looked for in {start} and the folders above it."
        mend = "run the command inside the course's folder, or name it with --course."
        raise ValueError(explain(did, "one of them holds notebooks/solutions/.", try_this=mend))

    def exercises(self, topic: str) -> Path:
        """The folder of a lesson's exercises and predictions."""
        return self.root / "course_utils" / "lessons" / topic

    def solution_paths(self, names: Sequence[str] = ()) -> list[Path]:
        """The solution notebooks in order; with ``names`` (``03_detach``, ``detach``, ``03_detach.ipynb``) only those.

        Raises:
            ValueError: a name that no solution notebook has; the message lists those there are.
        """
        found = {path.stem: path for path in sorted(self.solutions.glob("*.ipynb"))}
        full = {topic_of(path): stem for stem, path in found.items()}  # authors call a lesson by its name alone
        wanted = [full.get(Path(name).stem, Path(name).stem) for name in names] or list(found)
        if unknown := set(wanted) - found.keys():
            did = f"There is no solution notebook called {', '.join(sorted(unknown))}."
            raise ValueError(explain(did, f"one of {', '.join(found)}."))
        return [path for stem, path in found.items() if stem in wanted]

    def further_paths(self, names: Sequence[str] = ()) -> list[Path]:
        """The notebooks that go on from lessons, in order; with ``names``, only theirs, as ``solution_paths``."""
        wanted = {path.name for path in self.solution_paths(names)}
        return [path for path in sorted(self.further.glob("*.ipynb")) if not names or path.name in wanted]

    def name(self, path: Path) -> str:
        """The path as messages show it: relative to the course where it lies inside."""
        path = path.resolve()
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def topic_of(path: Path) -> str:
    """The lesson's name, from its file: ``detach`` for ``03_detach.ipynb``."""
    return re.sub(r"^\d+_", "", path.stem)


def read(path: Path) -> NotebookNode:
    """The notebook as it lies on disk, lines joined, nothing repaired and nothing checked.

    Raises:
        ValueError: the file is not a notebook of format 4.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["nbformat"] != 4 or not isinstance(data["cells"], list):
            raise ValueError(f"it is of format {data['nbformat']}")
        return nbformat.v4.to_notebook(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        did, mend = f"{path} could not be read as a notebook: {error!r}.", "take the last good version from git."
        raise ValueError(explain(did, "a notebook of format 4.5, as JupyterLab saves it.", try_this=mend)) from error


def dumps(notebook: NotebookNode) -> str:
    """The notebook as nbformat and nbgrader write it, with a newline at the end."""
    return nbformat.v4.writes_json(notebook) + "\n"


def normalised(notebook: NotebookNode) -> NotebookNode:
    """A copy in the form in which the repository keeps it; applying it twice changes nothing more.

    Metadata that belongs to an author's front end goes, code cells that were run are counted from 1. Ids, sources,
    tags, nbgrader's fields and the outputs stay.
    """
    result = copy.deepcopy(notebook)
    result.nbformat, result.nbformat_minor, result.metadata = 4, 5, nbformat.from_dict(NOTEBOOK_METADATA)
    count = 0
    for cell in result.cells:
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)})
        cell.source = cell.source.replace("\r\n", "\n").rstrip("\n")
        if cell.cell_type == "code" and cell.get("execution_count") is not None:
            count += 1
            for counted in (cell, *(output for output in cell.outputs if output.output_type == "execute_result")):
                counted.execution_count = count
    return result


def write(notebook: NotebookNode, path: Path) -> Path:
    """Writes the notebook in its kept form. Returns ``path``."""
    return write_whole(path, dumps(normalised(notebook)))

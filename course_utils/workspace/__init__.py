"""A learner's own copies of the lessons, in ``my_notebooks/``: fill it (``update``), take a lesson back (``fresh``).
What goes on from a lesson is treated as one: ``further/03_detach``. See ``autograd-control lab``.

A copy that its learner has begun is never written over. What a copy was made from is remembered as a hash
(``fingerprint``): a copy that nobody has touched follows the course, one that was begun is only spoken of.
"""

import contextlib
import errno
import hashlib
import json
import os
import shlex
import sys
from datetime import date
from itertools import count
from pathlib import Path

from course_utils.base import explain
from course_utils.base.files import write_whole
from course_utils.catalogue import COURSE

FOLDER = "my_notebooks"
RECORD = ".versions.json"
FURTHER = "further"
START_PAGE = "00_start_here.ipynb"


def fingerprint(content: bytes) -> str:
    """What a person can see of a notebook's bytes, as a hash: its cells' text, attachments and outputs.

    JupyterLab rewrites layout and metadata when it saves; a notebook that differs in these alone has not been touched.
    Bytes that are no notebook get a hash of themselves.
    """
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):  # not a notebook
        cells = [
            (cell["cell_type"], "".join(cell["source"]), cell.get("attachments") or {}, cell.get("outputs") or [])
            for cell in json.loads(content)["cells"]
        ]
        content = json.dumps(cells, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def learners_home() -> Path:
    """Where ``my_notebooks/`` lies by itself: in the checkout; installed from a wheel, in the current folder, or beside
    it where that is a ``my_notebooks/``."""
    if (COURSE / "pyproject.toml").is_file():
        return COURSE
    here = Path.cwd()
    return here.parent if here.name == FOLDER else here


def update(home: Path, course: Path = COURSE) -> list[str]:
    """Brings ``my_notebooks/`` in ``home`` up to date: new lessons are copied, untouched ones follow ``notebooks/`` in
    ``course``, begun ones stay.

    Returns what happened, one line each. A file that cannot be read or written is told there too and raises nothing, so
    that what is there can still be opened. Raises ``ValueError`` where there are no lessons in ``course``.
    """
    folder = home / FOLDER
    lessons, (record, lines) = _lessons(course), _read_record(folder)
    before, copied, followed, failed = dict(record), list[str](), list[str](), dict[str, list[str]]()
    for name, lesson in lessons.items():
        copy, known = folder / f"{name}.ipynb", record.get(name)
        try:
            content = lesson.read_bytes()
            version = fingerprint(content)
            mine = fingerprint(copy.read_bytes()) if os.path.lexists(copy) else None
            if mine is None or mine == known != version:
                copy.parent.mkdir(parents=True, exist_ok=True)
                write_whole(copy, content)
                (copied if mine is None else followed).append(name)
            elif version not in (mine, known):
                differs = "has a newer version" if known else "differs from the course's version"
                lines.append(f"{name} {differs}; yours is kept as it is. To take it: {_fresh_command(name, home)}")
                if known:
                    continue  # the record stays, so that this is said again until it is acted on
            record[name] = version
        except OSError as error:
            failed.setdefault(reason(error), []).append(name)
    if copied:
        lines.insert(0, f"Copied to {FOLDER}/: {', '.join(copied)}.")
    if followed:
        lines.append(f"Updated in {FOLDER}/, as you had not begun them: {', '.join(followed)}.")
    try:
        if record != before:
            write_whole(folder / RECORD, json.dumps(record, indent=1))
    except OSError as error:
        failed.setdefault(reason(error), []).append(RECORD)
    return lines + [f"{FOLDER}/ is not up to date ({', '.join(names)}): {why}" for why, names in failed.items()]


def fresh(name: str, home: Path, course: Path = COURSE) -> list[str]:
    """Gives a lesson back as the course has it now; the learner's file stays beside it under a new name.

    At every moment, a full disk and Ctrl-C included, the learner's work is in the folder under at least one name.

    Args:
        name: ``"03_detach"``, ``"detach"`` or ``"3"``; ``"further/03_detach"`` for what goes on from it.
        home, course: see ``update``.

    Returns what was done, one line each. Raises ``ValueError`` where there is no such lesson, and ``OSError`` where the
    folder cannot be written; the learner's file is then where it was.
    """
    found, lesson = _find(name, home, course)
    content, folder = lesson.read_bytes(), home / FOLDER
    copy, version = folder / f"{found}.ipynb", fingerprint(content)
    record, lines = _read_record(folder)
    mine = fingerprint(copy.read_bytes()) if os.path.lexists(copy) else None
    if mine == version:
        return [f"{FOLDER}/{found}.ipynb is as the course has it already; nothing was changed."]
    copy.parent.mkdir(parents=True, exist_ok=True)
    kept = _keep(copy) if mine not in (None, record.get(found)) else None
    write_whole(copy, content)
    again = "If it is open, close its tab and open it again."
    lines.append(f"{FOLDER}/{found}.ipynb is the course's version again. {again}")
    if kept:
        where = kept.relative_to(folder).as_posix()
        lines.append(f"Your file is kept as {FOLDER}/{where}. Points that you earned are kept too.")
    with contextlib.suppress(OSError):  # without it, the next update finds the copy equal to the lesson, and records it
        write_whole(folder / RECORD, json.dumps({**record, found: version}, indent=1))
    return lines


def _lessons(course: Path) -> dict[str, Path]:
    """The notebooks that are copied, by what they are called: a lesson, and then what goes on from it."""
    folder = course / "notebooks"
    lessons: dict[str, Path] = {}
    for path in sorted(folder.glob("*.ipynb")):
        lessons[path.stem] = path
        if (further := folder / FURTHER / path.name).is_file():
            lessons[f"{FURTHER}/{path.stem}"] = further
    if not lessons:
        needed = "the folder of the course, as cloned, with the package installed from it."
        install = 'python -m pip install -c constraints.txt -e . (with "-e"), in the folder of the course.'
        raise ValueError(explain(f"There are no lessons in {folder}.", needed, try_this=install))
    return lessons


def _find(name: str, home: Path, course: Path) -> tuple[str, Path]:
    lessons = _lessons(course)
    asked = Path(name.strip())
    for called, path in lessons.items():
        number, _, topic = path.stem.partition("_")
        is_named = asked.stem in (path.stem, topic, number, number.removeprefix("0"))
        if is_named and (asked.parent.name == FURTHER) == (path.parent.name == FURTHER):
            return called, path
    what = f"There is no lesson called {name!r}." if name else "No lesson was named."
    raise ValueError(explain(what, f"one of {', '.join(lessons)}.", try_this=_fresh_command(next(iter(lessons)), home)))


def _fresh_command(name: str, home: Path) -> str:
    # What works where the reader is: make would install a second environment beside a conda one.
    if Path(sys.prefix) == home / ".venv" and home == COURSE and os.name != "nt":
        return f"make fresh LESSON={name}"
    named = "" if home == learners_home() else f" --folder {shlex.quote(str(home))}"
    return f"autograd-control fresh {name}{named}"


def _read_record(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The fingerprints by lesson, and what to say where they cannot be read."""
    try:
        return dict(json.loads((folder / RECORD).read_bytes())), []
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except (OSError, ValueError, TypeError):
        return {}, [f"{FOLDER}/{RECORD} cannot be read and is made anew; your notebooks stay as they are."]


def _keep(copy: Path) -> Path:
    """Gives the learner's work a second file, under a name that nothing had before."""
    names = (f"{copy.stem}.kept-{date.today().isoformat()}{'' if n == 1 else f'-{n}'}.ipynb" for n in count(1))
    kept = next(path for path in map(copy.with_name, names) if not os.path.lexists(path))
    return write_whole(kept, copy.read_bytes())


def reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. Free some space and run the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"it may not be written ({error.strerror}). Make the folder writable and run the same command again."
    return f"{error}."

"""Misunderstandings that checks recognise (``Misconception``), as the exercises' text files hold them (``read``)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_utils import catalogue
from course_utils.base.files import prose, read_toml, require_fields
from course_utils.base.text import count_of

LESSONS = Path(__file__).resolve().parents[1] / "lessons"
PROSE = ("name", "explanation", "next_step")


@dataclass(frozen=True)
class Misconception:
    """A misunderstanding that a check recognises.

    Attributes:
        name: what it is called, as the learner would say it: "detach() makes a copy".
        explanation: what is really so, in one to three sentences. Never the solution.
        next_step: one thing to try.
        explained: where the course explains it: a lesson's name and one of its headings; empty where nowhere.
        home: its one place in the course, ``"detach/snapshot/alias"``; empty for those of every exercise.
        program: a complete program of at most eight lines that shows it.
        prints: what the program prints.
        wrong: ways to make the mistake in the exercise's model answer; see ``compare.edited``.
    """

    name: str
    explanation: str
    next_step: str
    explained: tuple[str, ...] = ()
    home: str = ""
    program: str = ""
    prints: str = ""
    wrong: tuple[tuple[str, ...], ...] = ()

    @property
    def place(self) -> tuple[str, str] | tuple[()]:
        """Where it is explained, as notebook and heading: ``("03_detach", "A view, not a copy")``."""
        return (catalogue.find(self.explained[0]).notebook, self.explained[1]) if self.explained else ()


def _texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A misconception's prose, and its program as it stands."""
    return {name: prose(fields[name]) for name in PROSE} | {
        name: fields[name].strip("\n") for name in ("program", "prints") if name in fields
    }


# What can go wrong in any exercise.
GENERAL = {
    key: Misconception(**_texts(fields)) for key, fields in read_toml(Path(__file__).with_name("general.toml")).items()
}


def read(path: Path) -> dict[str, Any]:
    """An exercise's text file, its misconceptions made.

    A misconception is ``explained`` under a heading of the lesson, or under one of an earlier lesson
    (``["leaf_tensors", "How to change a leaf"]``).
    Its ``program`` shows it in at most eight lines, and ``prints`` holds what that prints. One that has its home in
    another exercise says ``same_as = "lesson/exercise/key"``, and may have a ``next_step`` of its own, and a place
    that comes before its own lesson's end where the home's comes later (``explained``).

    Raises:
        ValueError: it is no TOML, a field is missing or unknown, or ``same_as`` leads nowhere; the message names the
            file.
    """
    values = dict(read_toml(path))
    values["hints"] = [prose(hint) for hint in values.get("hints", ())]
    values["misconceptions"] = {
        key: _made(path, key, fields) for key, fields in values.get("misconceptions", {}).items()
    }
    return values


def heading(path: Path, values: Mapping[str, Any]) -> str:
    """The heading of an exercise in its notebook: ``"Exercise 3.3 · mean_loss · 2 points, 8 minutes"``.

    Args:
        path: the exercise's text file.
        values: what stands in it; here ``number``, ``points`` and ``minutes``.

    Raises:
        ValueError: one of them is missing; the message names the file.
    """
    if not {"number", "points", "minutes"} <= values.keys():
        raise ValueError(f"{path} lacks number, points or minutes, of which the exercise's heading is made.")
    lesson, points, minutes = catalogue.find(path.parent.name), values["points"], f"{values['minutes']} minutes"
    costs = f"{count_of(points, 'point')}, {minutes}" if points else f"{minutes}, no points"
    return f"Exercise {lesson.number}.{values['number']} · {path.stem} · {costs}"


def _made(path: Path, key: str, fields: Mapping[str, Any]) -> Misconception:
    wrong = tuple(map(tuple, fields.get("wrong", ())))
    if "same_as" in fields:
        found = _home(path, key, fields["same_as"])
        require_fields(path, f"misconception {key!r}", fields, {"same_as"}, {"next_step", "explained", "wrong"})
        place = _place(path, fields["explained"]) if "explained" in fields else found.explained
        return replace(found, next_step=prose(fields.get("next_step", found.next_step)), explained=place, wrong=wrong)
    needed, more = {*PROSE, "explained"}, {"program", "prints", "wrong"}
    require_fields(path, f"misconception {key!r}", fields, needed, more)
    place, home = _place(path, fields["explained"]), f"{path.parent.name}/{path.stem}/{key}"
    return Misconception(**_texts(fields), explained=place, home=home, wrong=wrong)


def _place(path: Path, explained: Any) -> tuple[str, ...]:
    return (path.parent.name, explained) if isinstance(explained, str) else tuple(explained)


def _home(path: Path, key: str, same_as: str) -> Misconception:
    lesson, _, rest = same_as.partition("/")
    exercise, _, its_key = rest.partition("/")
    other = LESSONS / lesson / f"{exercise}.toml"
    values = read_toml(other) if other.is_file() else {"misconceptions": {}}
    fields = values["misconceptions"].get(its_key)
    if fields is None or "same_as" in fields:
        raise ValueError(f"{path}: misconception {key!r} is the same as {same_as!r}, which is no misconception's home.")
    return _made(other, its_key, fields)

"""The pages of misconceptions, made from the exercises' text files (``page``, ``overview``)."""

import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from myst_parser.slugs import github_slugify

from course_utils import catalogue
from course_utils.catalogue import LESSONS, LessonInfo
from course_utils.checks import misconceptions
from course_utils.checks.misconceptions import Misconception

OVERVIEW = """\
# Misconceptions

Each check of the course knows the misunderstandings that lead to a wrong answer, and its card names the one that the
answer shows. Here are all {count} of them, each under the exercise where it is at home: as the heading what one
believes, below it what is really so. The search finds them by their words.

{rows}

```{{toctree}}
:hidden:

{pages}
```
"""


def overview() -> str:
    """The page above the lessons' pages, in Markdown."""
    homes = {lesson.name: sum(len(rows) for _, rows in _exercises(lesson)) for lesson in LESSONS}
    rows = [
        f"- [{lesson.number:02d} {lesson.title}]({lesson.notebook}.md): {homes[lesson.name]}, "
        f"from the lesson [“{lesson.question}”](../notebooks/{lesson.notebook}.ipynb)"
        for lesson in LESSONS
    ]
    pages = "\n".join(f"{lesson.number:02d} {lesson.title} <{lesson.notebook}>" for lesson in LESSONS)
    return OVERVIEW.format(count=sum(homes.values()), rows="\n".join(rows), pages=pages)


def page(lesson: LessonInfo) -> str:
    """One lesson's misconceptions, in Markdown, exercise by exercise."""
    head = f"# {lesson.number:02d} {escaped(lesson.title)}: misconceptions\n"
    return "\n".join(chain([head], *(section(name, rows) for name, rows in _exercises(lesson) if rows)))


def _exercises(lesson: LessonInfo) -> Iterator[tuple[str, list[tuple[Misconception, Mapping[str, Any]]]]]:
    # A misconception that more exercises know is shown where it is at home.
    for exercise in importlib.import_module(f"course_utils.lessons.{lesson.name}").EXERCISES:
        path = misconceptions.LESSONS / lesson.name / f"{exercise.name}.toml"
        fields = tomllib.loads(path.read_text(encoding="utf-8")).get("misconceptions", {})
        made = misconceptions.read(path)["misconceptions"]
        yield exercise.name, [(made[key], fields[key]) for key in made if "same_as" not in fields[key]]


def section(exercise: str, rows: list[tuple[Misconception, Mapping[str, Any]]]) -> Iterator[str]:
    """One exercise's misconceptions, each with the fields of its text file."""
    yield f"## {escaped(exercise)}\n"
    for row, fields in rows:
        yield f"### {escaped(row.name)}\n\n{escaped(row.explanation)}\n"
        if "program" in fields:
            yield _program(fields["program"], fields["prints"])
        lesson, heading = row.explained
        place = f"../notebooks/{catalogue.find(lesson).notebook}.ipynb#{github_slugify(heading)}"
        yield f"*Try:* {escaped(row.next_step)}\\\n*Read:* []({place})\n"


def _program(program: str, prints: str) -> str:
    return (
        "<details><summary>A program that shows it</summary>\n\n"
        f"```python\n{program.strip()}\n```\n\n```text\n{prints.strip()}\n```\n\n</details>\n"
    )


def escaped(text: str) -> str:
    """Prose of the text files as Markdown: `code` and *emphasis* stay, every other sign means itself."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\\[\]<>_$#|{}~^])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)

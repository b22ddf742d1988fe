"""One folder for each lesson; in it, ``<exercise>.py`` and ``<exercise>.toml`` for each exercise."""

import importlib
from pathlib import Path
from typing import Any

from course_utils.base.files import read_toml


def text_files(folder: Path) -> list[Path]:
    """The text files of a lesson's exercises, in the lesson's order: that of their ``number``.

    Raises:
        ValueError: the numbers are not 1, 2, 3 and so on.
    """
    numbers = {path: read_toml(path).get("number") for path in folder.glob("*.toml") if path.stem != "predictions"}
    if {number for number in numbers.values() if type(number) is int} != set(range(1, len(numbers) + 1)):
        said = ", ".join(f"{path.stem} {number!r}" for path, number in sorted(numbers.items()))
        raise ValueError(f"The exercises in {folder} are to be numbered from 1, without a gap; there are: {said}.")
    return sorted(numbers, key=lambda path: numbers[path])


def exercises(file: str) -> tuple[Any, ...]:
    """A lesson's exercises, in its order: what its ``EXERCISES`` is.

    Args:
        file: the lesson's ``__file__``. Each text file beside it has a module of its name, and that an exercise of its
            name.
    """
    folder = Path(file).parent
    names = [path.stem for path in text_files(folder)]
    modules = [importlib.import_module(f"{__name__}.{folder.name}.{name}") for name in names]
    return tuple(getattr(module, name) for module, name in zip(modules, names, strict=True))
